"""Which APIs are administrative: a new API must be classified before a client may send it."""

from wire.administrative import ADMINISTRATIVE
from wire.apis import OFFERED, name_of

NOT = {
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "DescribeGroups",
    "ListGroups",
    "SaslHandshake",
    "ApiVersions",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "TxnOffsetCommit",
    "DescribeAcls",
    "DescribeConfigs",
    "DescribeLogDirs",
    "SaslAuthenticate",
    "DescribeDelegationToken",
    "ListPartitionReassignments",
    "DescribeClientQuotas",
    "DescribeUserScramCredentials",
    "DescribeQuorum",
    "DescribeCluster",
    "DescribeProducers",
    "DescribeTransactions",
    "ListTransactions",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "GetTelemetrySubscriptions",
    "PushTelemetry",
    "ListConfigResources",
    "DescribeTopicPartitions",
    "ShareGroupHeartbeat",
    "ShareGroupDescribe",
    "ShareFetch",
    "ShareAcknowledge",
    "StreamsGroupHeartbeat",
    "StreamsGroupDescribe",
    "DescribeShareGroupOffsets",
    "StreamsGroupTopologyDescriptionUpdate",
}
"""APIs of ordinary clients, and APIs that only describe."""


def test_every_api_that_is_offered_is_administrative_or_known_not_to_be():
    """No offered API is in both lists, and none is missing."""
    administrative = {name_of(key) for key in ADMINISTRATIVE}
    assert not administrative & NOT
    assert administrative | NOT == {name_of(key) for key in OFFERED}
