"""What the fields of random requests hold: by their place in a message, else by their name.

- Names are those of the prepared cluster (`guarded_kafka`), and some that are nowhere. FRESH in a name becomes a number
  of its own each time the request is sent: what a request makes is not in the way of the next.
- What would hurt the cluster asks for something that is not there (broker 77), or only for a check.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from kafka.record import MemoryRecordsBuilder

FRESH: Final = "--000000"
TOPICS: Final = ("orders", "orders.rich", "pay.in", "pay.out", "hr.people")
"""Those that are there from the start."""
GONE: Final = tuple(f"gone.{number}" for number in range(12))
"""Those that may be deleted."""
GROUPS: Final = ("orders-app", "pay-app")
"""Classic groups with offsets."""
MEMBERS: Final = ("hr-app", "share-app", "streams-app")
"""Groups with members, of KIP-848, KIP-932 and KIP-1071."""
TRANSACTIONS: Final = ("orders-tx", "pay-tx")
"""Open transactions."""
Make = Callable[[random.Random], Any]


def _one(*values: object) -> Make:
    return lambda chance: chance.choice(values)


def random_topic(chance: random.Random) -> str:
    return chance.choice((*TOPICS, *TOPICS, "void", "orders.none", f"orders.new{FRESH}"))


def _group(chance: random.Random) -> str:
    return chance.choice((*GROUPS, *MEMBERS, "void-app", f"orders-app{FRESH}"))


def _joined_group(chance: random.Random) -> str:
    return (
        chance.choice(("orders-app", "pay-app", "void-app", "share-app", "hr-app", "streams-app"))
        + FRESH
    )


def _transaction(chance: random.Random) -> str:
    return chance.choice(("orders-tx", "pay-tx", "void-tx")) + FRESH


def _listed(make: Make, most: int = 4) -> Make:
    return lambda chance: [make(chance) for _ in range(1 + chance.randrange(-1, most) % most)]


def _member(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


@cache
def random_batch(*, transactional: bool = False) -> bytes:
    """Return a batch of one record, of a producer that no broker knows if it is transactional."""
    builder = MemoryRecordsBuilder(
        *(2, 0, 1 << 20),
        transactional=transactional,
        producer_id=4711 if transactional else -1,
        producer_epoch=0 if transactional else -1,
        base_sequence=0 if transactional else -1,
    )
    builder.append(timestamp=int(time.time() * 1000), key=None, value=b"v")  # an old one is deleted
    builder.close()
    return bytes(builder.buffer())


FIELDS: Final[dict[str, Make]] = {
    "name": random_topic,
    "topic": random_topic,
    "topic_name": random_topic,
    "topic_names": _listed(random_topic),
    "group_id": _group,
    "groups": _listed(_group),
    "group_ids": _listed(_group),
    "groups_names": _listed(_one("void-app", f"pay-app{FRESH}", "void-app2")),
    "transactional_id": _transaction,
    "transactional_ids": _listed(_one(*TRANSACTIONS, "void-tx")),
    "index": _one(0, 1, 7),
    "partition": _one(0, 1, 7),
    "partition_index": _one(0, 1, 7),
    "partitions": _listed(_one(0, 1, 7), 3),
    "partition_indexes": _listed(_one(0, 1), 3),
    "timeout": _one(1000),
    "max_wait": _one(0),
    "min_bytes": _one(0),
    "max_bytes": _one(100_000),
    "max_records": _one(5),
    "batch_size": _one(5),
    "partition_max_bytes": _one(1000),
    "replica_id": _one(-1, -1, -1, -1, -1, -1, 5),
    "replica_epoch": _one(-1),
    "current_leader_epoch": _one(-1),
    "leader_epoch": _one(0),
    "isolation_level": _one(0, 1),
    "session_id": _one(0),
    "session_epoch": _one(-1, 0),
    "session_timeout": _one(10_000),
    "rebalance_timeout": _one(1000),
    "member_id": _one("", "ghost"),
    "member_epoch": _one(-1),
    "generation_id": _one(-1),
    "generation_id_or_member_epoch": _one(-1),
    "retention_time": _one(-1),
    "committed_offset": _one(1),
    "committed_leader_epoch": _one(-1),
    "committed_metadata": _one(""),
    "producer_id": _one(4711, -1),
    "producer_epoch": _one(0),
    "timestamp": _one(-1, -2),
    "include_topic_authorized_operations": _one(True, True, False),
    "include_cluster_authorized_operations": _one(True, True, False),
    "include_authorized_operations": _one(True, True, False),
    "response_partition_limit": _one(2000),
    "transaction_timeout": _one(10_000),
    "validate_only": _one(True),
}
"""By the name of the field, in any message."""

PLACES: Final[dict[str, Make]] = {
    "Produce.acks": _one(1, -1),
    "Produce.transactional_id": lambda chance: (
        _transaction(chance) if chance.random() < 0.3 else None
    ),
    "Metadata.topics": lambda chance: None if chance.random() < 0.35 else ...,
    "Metadata.allow_auto_topic_creation": _one(False, True),
    "OffsetFetch.topics": lambda chance: None if chance.random() < 0.3 else ...,
    "OffsetFetch.groups.topics": lambda chance: None if chance.random() < 0.3 else ...,
    "OffsetFetch.groups.member_id": _one(None),
    "FindCoordinator.key": lambda chance: chance.choice((_group, _transaction))(chance),
    "FindCoordinator.coordinator_keys": _listed(
        lambda chance: chance.choice((_group, _transaction))(chance)
    ),
    "FindCoordinator.key_type": _one(0, 0, 1, 1, 2),
    "JoinGroup.protocols": lambda _: [{"name": "range", "metadata": b""}],
    "JoinGroup.protocol_type": _one("consumer"),
    "JoinGroup.group_id": _joined_group,
    "SyncGroup.protocol_type": _one("consumer"),
    "SyncGroup.protocol_name": _one("range"),
    "CreateTopics.topics.name": _one(
        f"orders.new{FRESH}", f"pay.new{FRESH}", f"void{FRESH}", *TOPICS[:2]
    ),
    "CreateTopics.topics.num_partitions": _one(1),
    "CreateTopics.topics.replication_factor": _one(1),
    "CreateTopics.topics.assignments": _one(()),
    "CreateTopics.topics.configs": _one(()),
    "DeleteTopics.topic_names": _listed(_one(*GONE, "void", f"orders.new{FRESH}")),
    "DeleteTopics.topics.name": _one(*GONE, "void", f"orders.new{FRESH}", None),
    "DeleteTopics.topics.topic_id": _one(*(f"id of {name}" for name in (*GONE, "nothing"))),
    "DeleteRecords.topics.partitions.offset": _one(0),
    "CreatePartitions.topics.count": _one(1, 3),
    "CreatePartitions.topics.assignments": _one(None),
    "InitProducerId.transactional_id": lambda chance: (
        _transaction(chance) if chance.random() < 0.6 else None
    ),
    "InitProducerId.producer_id": _one(-1),
    "InitProducerId.producer_epoch": _one(-1),
    "AddPartitionsToTxn.v3_and_below_transactional_id": _transaction,
    "AddPartitionsToTxn.v3_and_below_producer_id": _one(4711),
    "AddPartitionsToTxn.v3_and_below_producer_epoch": _one(0),
    "WriteTxnMarkers.markers.topics.name": _one("void"),
    "DescribeAcls.principal_filter": _one("User:nobody"),
    "DeleteAcls.filters.principal_filter": _one("User:nobody"),
    **{
        f"{api}.{field}": make
        for api in ("DescribeAcls", "DeleteAcls.filters")
        for field, make in {
            "resource_type_filter": _one(1, 2),
            "resource_name_filter": _one(None),
            "pattern_type_filter": _one(1),
            "host_filter": _one(None),
            "operation": _one(1),
            "permission_type": _one(1),
        }.items()
    },
    "CreateAcls.creations.resource_type": _one(2, 3),
    "CreateAcls.creations.resource_name": _one("orders", "nowhere"),
    "CreateAcls.creations.resource_pattern_type": _one(3),
    "CreateAcls.creations.principal": _one("User:nobody"),
    "CreateAcls.creations.host": _one("*"),
    "CreateAcls.creations.operation": _one(3),
    "CreateAcls.creations.permission_type": _one(3),
    "AlterReplicaLogDirs.dirs.path": _one("/nowhere"),
    "DescribeLogDirs.topics": lambda chance: None if chance.random() < 0.4 else ...,
    "ElectLeaders.topic_partitions": lambda chance: None if chance.random() < 0.4 else ...,
    "AlterPartitionReassignments.topics.partitions.replicas": _one([1], None),
    "ListPartitionReassignments.topics": lambda chance: None if chance.random() < 0.4 else ...,
    "DescribeClientQuotas.components": _one(()),
    "AlterClientQuotas.entries": lambda _: [
        {
            "entity": [{"entity_type": "user", "entity_name": "nobody"}],
            "ops": [{"key": "request_percentage", "value": 50.0}],
        }
    ],
    "DescribeUserScramCredentials.users": _one([{"name": "nobody"}], [{"name": "somebody"}]),
    "AlterUserScramCredentials.deletions": _one([{"name": "nobody", "mechanism": 1}]),
    "AlterUserScramCredentials.upsertions": _one(()),
    "DescribeQuorum.topics.topic_name": _one("__cluster_metadata", "orders"),
    "UpdateFeatures.feature_updates": lambda _: [
        {"feature": "nothing.version", "max_version_level": 1}
    ],
    "DescribeCluster.endpoint_type": _one(1, 1, 1, 2),
    "UnregisterBroker.broker_id": _one(77),
    "UnregisterController.controller_id": _one(77),
    "AddRaftVoter.voter_id": _one(77),
    "RemoveRaftVoter.voter_id": _one(77),
    "ListTransactions.duration_filter": _one(-1),
    "ListTransactions.transactional_id_pattern": _one(None, "orders.*"),
    "ListTransactions.state_filters": _one((), ("Ongoing",)),
    "ListTransactions.producer_id_filters": _one(()),
    "ListGroups.states_filter": _one(()),
    "ListGroups.types_filter": _one(()),
    "ListConfigResources.resource_types": _one((), (2,), (2, 32)),
    "DescribeTopicPartitions.topics": lambda chance: () if chance.random() < 0.4 else ...,
    "DescribeTopicPartitions.cursor": _one(None),
    "ConsumerGroupHeartbeat.group_id": _joined_group,
    "ConsumerGroupHeartbeat.member_epoch": _one(0),
    "ConsumerGroupHeartbeat.member_id": _member,
    "ConsumerGroupHeartbeat.subscribed_topic_names": _listed(random_topic),
    "ConsumerGroupHeartbeat.topic_partitions": _one(()),
    "ConsumerGroupHeartbeat.subscribed_topic_regex": _one(None),
    "ShareGroupHeartbeat.group_id": _joined_group,
    "ShareGroupHeartbeat.member_epoch": _one(0),
    "ShareGroupHeartbeat.member_id": _member,
    "ShareGroupHeartbeat.subscribed_topic_names": _listed(random_topic),
    "ShareFetch.member_id": _member,
    "ShareFetch.share_session_epoch": _one(0),
    "ShareFetch.topics.partitions.acknowledgement_batches": _one(()),
    "ShareFetch.forgotten_topics_data": _one(()),
    "ShareAcknowledge.member_id": _member,
    "ShareAcknowledge.share_session_epoch": _one(1),
    "ShareAcknowledge.topics.partitions.acknowledgement_batches": _one(()),
    "StreamsGroupHeartbeat.group_id": _joined_group,
    "StreamsGroupHeartbeat.member_epoch": _one(0),
    "StreamsGroupHeartbeat.member_id": _member,
    "StreamsGroupHeartbeat.process_id": _one("process"),
    "StreamsGroupHeartbeat.topology": lambda chance: {
        "epoch": 0,
        "subtopologies": [
            {
                "subtopology_id": "0",
                "source_topics": [chance.choice(TOPICS)],
                "state_changelog_topics": [],
                "repartition_sink_topics": [chance.choice(TOPICS)] if chance.random() < 0.5 else [],
                "repartition_source_topics": [],
            }
        ],
    },
    "StreamsGroupHeartbeat.active_tasks": _one(()),
    "StreamsGroupHeartbeat.standby_tasks": _one(()),
    "StreamsGroupHeartbeat.warmup_tasks": _one(()),
    "StreamsGroupHeartbeat.user_endpoint": _one(None),
    "StreamsGroupHeartbeat.client_tags": _one(()),
    "StreamsGroupHeartbeat.task_offsets": _one(None),
    "StreamsGroupHeartbeat.task_end_offsets": _one(None),
    "AlterShareGroupOffsets.group_id": _one("share-app", "void-app", f"share-app{FRESH}"),
    "DescribeShareGroupOffsets.groups.topics": lambda chance: (
        None if chance.random() < 0.4 else ...
    ),
    "DescribeShareGroupOffsets.groups.topics.partitions": _one((0,), (0, 1)),
    "AlterShareGroupOffsets.topics.partitions.partition_index": _one(0, 1),
    "StreamsGroupTopologyDescriptionUpdate.member_id": _member,
}
"""By the place in the message. `...`: by the field's shape."""
