"""The kinds of access that requests need, for the policy `topics`."""

from __future__ import annotations

from typing import Final

from policies.topic_settings import Access
from wire.apis import ApiKey

_SEEING: Final = frozenset(
    {
        ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.DESCRIBE_QUORUM,
        ApiKey.LIST_PARTITION_REASSIGNMENTS, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.STREAMS_GROUP_DESCRIBE, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    }
)  # fmt: skip
_READING: Final = frozenset(
    {
        ApiKey.FETCH, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE, ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    }
)  # fmt: skip
_WRITING: Final = frozenset({ApiKey.PRODUCE, ApiKey.ADD_PARTITIONS_TO_TXN})
ANY: Final = frozenset(Access)
OPEN: Final = frozenset(
    {
        ApiKey.METADATA, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.DESCRIBE_ACLS, ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,  # a pattern: its records come by Fetch
        ApiKey.SHARE_FETCH,  # its topics were judged when the session named them
    }
)  # fmt: skip
"""Requests about topics that they do not name pass: their replies are cut, or their topics are judged elsewhere."""
READ, WRITE, MANAGE = (frozenset({each}) for each in Access)


def access_needed(api_key: int) -> frozenset[Access]:
    """Return the kinds of access of which one is enough for requests of this API."""
    if api_key in _SEEING:
        return ANY
    if api_key in _READING:
        return READ
    return WRITE if api_key in _WRITING else MANAGE
