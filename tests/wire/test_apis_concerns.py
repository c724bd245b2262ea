"""The subject of each API: whether it is administrative, and whether a broker may judge it by a proxy's credentials."""

import pytest

from wire import apis
from wire.apis import ADMINISTRATIVE, OFFERED, ApiKey, name_of

ON_THE_CLUSTER = {
    "AddRaftVoter", "AlterClientQuotas", "AlterConfigs", "AlterPartitionReassignments", "AlterReplicaLogDirs",
    "AlterUserScramCredentials", "CreateAcls", "CreateDelegationToken", "CreateTopics", "DeleteAcls", "DescribeAcls",
    "DescribeClientQuotas", "DescribeCluster", "DescribeConfigs", "DescribeDelegationToken", "DescribeLogDirs",
    "DescribeQuorum", "DescribeUserScramCredentials", "ElectLeaders", "ExpireDelegationToken", "Fetch",
    "IncrementalAlterConfigs", "InitProducerId", "ListConfigResources", "ListGroups", "ListPartitionReassignments",
    "OffsetForLeaderEpoch", "RemoveRaftVoter", "RenewDelegationToken", "UnregisterBroker", "UnregisterController",
    "UpdateFeatures", "WriteTxnMarkers",
}  # fmt: skip
"""The APIs that Kafka authorizes, or can, on the resources Cluster, User and DelegationToken, or by the token's owner
(its documentation, "Operations and Resources on Protocols", and `KafkaApis`)."""

NOT_ABOUT_CREDENTIALS = {
    "AlterPartitionReassignments": "of topics that it names",
    "AlterReplicaLogDirs": "of topics that it names",
    "CreateTopics": "of topics",
    "DescribeCluster": "each client asks it; it only describes",
    "DescribeConfigs": "it only describes, and Kafka returns no secret",
    "DescribeLogDirs": "it only describes",
    "DescribeQuorum": "it only describes; Sluice hides the addresses",
    "ElectLeaders": "of topics that it names",
    "Fetch": "of topics; a follower's needs the right ClusterAction",
    "InitProducerId": "each producer asks it",
    "ListConfigResources": "it only describes",
    "ListGroups": "it only describes",
    "ListPartitionReassignments": "it only describes",
    "OffsetForLeaderEpoch": "of topics; a follower's needs the right ClusterAction",
    "WriteTxnMarkers": "of topics that it names",
}


def test_what_kafka_authorizes_on_the_cluster_concerns_it_or_there_is_a_reason() -> None:
    """For each API that Kafka has it is decided whether a proxy lends it its credentials."""
    about = {
        apis.name_of(key) for key in apis.OFFERED if apis.concern_of(key) is not apis.Concern.DATA
    }
    assert about == ON_THE_CLUSTER - NOT_ABOUT_CREDENTIALS.keys()


def test_every_api_says_what_it_concerns() -> None:
    """An API that is not offered is one of brokers, and the reverse."""
    for key in ApiKey:
        between_brokers = apis.concern_of(key) is apis.Concern.BROKERS
        assert between_brokers is (key not in apis.OFFERED)
    with pytest.raises(LookupError):
        apis.concern_of(4711)


NOT = {
    "Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "FindCoordinator", "JoinGroup",
    "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups", "ListGroups", "SaslHandshake", "ApiVersions",
    "InitProducerId", "OffsetForLeaderEpoch", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit",
    "DescribeAcls", "DescribeConfigs", "DescribeLogDirs", "SaslAuthenticate", "DescribeDelegationToken",
    "ListPartitionReassignments", "DescribeClientQuotas", "DescribeUserScramCredentials", "DescribeQuorum",
    "DescribeCluster", "DescribeProducers", "DescribeTransactions", "ListTransactions", "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe", "GetTelemetrySubscriptions", "PushTelemetry", "ListConfigResources",
    "DescribeTopicPartitions", "ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge",
    "StreamsGroupHeartbeat", "StreamsGroupDescribe", "DescribeShareGroupOffsets",
    "StreamsGroupTopologyDescriptionUpdate",
}  # fmt: skip
"""APIs of ordinary clients, and APIs that only describe."""


def test_every_api_that_is_offered_is_administrative_or_known_not_to_be():
    """No offered API is in both lists, and none is missing."""
    administrative = {name_of(key) for key in ADMINISTRATIVE}
    assert not administrative & NOT
    assert administrative | NOT == {name_of(key) for key in OFFERED}
