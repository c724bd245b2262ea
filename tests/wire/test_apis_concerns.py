"""The subject of each API: whether a broker may judge it by a proxy's own credentials."""

import pytest

from wire import apis
from wire.apis import ApiKey

ON_THE_CLUSTER = {
    "AddRaftVoter",
    "AlterClientQuotas",
    "AlterConfigs",
    "AlterPartitionReassignments",
    "AlterReplicaLogDirs",
    "AlterUserScramCredentials",
    "CreateAcls",
    "CreateDelegationToken",
    "CreateTopics",
    "DeleteAcls",
    "DescribeAcls",
    "DescribeClientQuotas",
    "DescribeCluster",
    "DescribeConfigs",
    "DescribeDelegationToken",
    "DescribeLogDirs",
    "DescribeQuorum",
    "DescribeUserScramCredentials",
    "ElectLeaders",
    "ExpireDelegationToken",
    "Fetch",
    "IncrementalAlterConfigs",
    "InitProducerId",
    "ListConfigResources",
    "ListGroups",
    "ListPartitionReassignments",
    "OffsetForLeaderEpoch",
    "RemoveRaftVoter",
    "RenewDelegationToken",
    "UnregisterBroker",
    "UnregisterController",
    "UpdateFeatures",
    "WriteTxnMarkers",
}
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
