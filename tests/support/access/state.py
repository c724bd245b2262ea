"""What a cluster has, as a super user sees it: to show that an attempt has changed nothing.

Times, and what passes by itself (the high watermark of internal topics), are no part of it.
"""

from __future__ import annotations

from typing import Any, Final

from tests.support.access.replies import INTERNAL, projected
from tests.support.access.speaker import Speaker
from tests.support.messages.kafka_messages import structs

_ANY_ACL: Final = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
_VALUES: Final = (
    *("name", "value", "host", "principal", "operation", "permission_type"),
    *("replica_nodes", "leader_id", "state", "mechanism", "iterations", "max_version_level"),
    *("producer_id", "producer_epoch", "transaction_state", "group_state", "member_id"),
    *("committed_offset", "offset", "start_offset", "entity_name", "key"),
)
"""Fields that tell of a change, whatever struct they are in."""


def state_of(root: Speaker, without: frozenset[str]) -> dict[str, Any]:
    """Return what topics, configs, groups, transactions, rights, users, quotas and features there are.

    `without`: topics whose records, and groups whose offsets, may change.
    """
    metadata = root.ask("Metadata", 12, topics=None)
    topics = sorted(each.name for each in metadata.topics if not each.name.startswith(INTERNAL))
    groups = sorted(each.group_id for each in root.ask("ListGroups", 5).groups)
    listed = root.ask("ListTransactions", 0).transaction_states
    transactions = sorted(each.transactional_id for each in listed)
    parts = [{"partition_index": part, "timestamp": -1} for part in (0, 1)]
    configs = [
        *({"resource_type": 2, "resource_name": topic} for topic in topics),
        *({"resource_type": 4, "resource_name": name} for name in ("1", "")),
        *({"resource_type": 32, "resource_name": group} for group in groups),
    ]
    asked = {
        "topics": metadata.topics,
        "ends": root.ask(
            *("ListOffsets", 6),
            replica_id=-1,
            topics=[
                {"name": topic, "partitions": parts} for topic in topics if topic not in without
            ],
        ),
        "configs": root.ask("DescribeConfigs", 4, resources=configs),
        "groups": root.ask("ConsumerGroupDescribe", 1, group_ids=groups),
        "shares": root.ask("ShareGroupDescribe", 1, group_ids=groups),
        "streams": root.ask("StreamsGroupDescribe", 0, group_ids=groups),
        "classic": root.ask("DescribeGroups", 5, groups=groups),
        "offsets": root.ask(
            "OffsetFetch",
            8,
            groups=[
                {"group_id": group, "topics": None} for group in groups if group not in without
            ],
        ),
        "transactions": root.ask("DescribeTransactions", 0, transactional_ids=transactions),
        "rights": root.ask("DescribeAcls", 3, **_ANY_ACL),
        "users": root.ask("DescribeUserScramCredentials", 0, users=None),
        "quotas": root.ask("DescribeClientQuotas", 1, components=[]),
        "tokens": root.ask("DescribeDelegationToken", 3, owners=None),
        "moves": root.ask("ListPartitionReassignments", 0, topics=None, timeout=5000),
    }
    return {name: [projected(reply, {}), _values(reply)] for name, reply in asked.items()}


def _values(reply: Any) -> list[str]:
    found = []
    for struct in structs(reply):
        name = getattr(struct, "name", None) or getattr(struct, "topic_name", None)
        if isinstance(name, str) and name.startswith(INTERNAL):
            continue
        kept = {each: getattr(struct, each) for each in _VALUES if hasattr(struct, each)}
        if kept:
            found.append(repr(kept))
    return sorted(found)
