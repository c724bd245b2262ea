"""The settings of the policy `topics`, and the kinds of access that requests need."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from policies.name_patterns import pattern_mistake
from policies.validation import Problem
from wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator


class Access(Enum):
    """A way to use a topic or a group."""

    READ = "read"
    WRITE = "write"
    MANAGE = "manage"


class TopicRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Allows or denies access to topics and groups for the clients that fit."""

    effect: Literal["allow", "deny"] = "allow"
    """The decision where the rule fits."""
    user: str = "*"
    """A principal's name, or the beginning of names and `*`."""
    client_id: str = "*"
    """As `user`. A client id is a claim of the client, not a proof."""
    topics: tuple[str, ...] = ()
    """Names of topics, or beginnings of names and `*`."""
    groups: tuple[str, ...] = ()
    """The same of consumer groups."""
    access: tuple[Access, ...] = tuple(Access)
    """`read`, `write` and `manage` (create, delete, change)."""

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for a rule about nothing, and for each pattern that is none."""
        if not self.topics and not self.groups:
            yield Problem("", "a rule about nothing", "topics, groups, or both")
        if not self.access:
            yield Problem("access", "no access", "read, write, manage, or several of them")
        for key in ("user", "client_id"):
            yield from pattern_mistake(key, getattr(self, key))
        for key in ("topics", "groups"):
            for place, pattern in enumerate(getattr(self, key)):
                yield from pattern_mistake(f"{key}[{place}]", pattern)


class TopicsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of the policy."""

    rules: tuple[TopicRule, ...]
    """The rules in their order; the first that fits decides."""
    default: Literal["allow", "deny"] = "deny"
    """The decision where no rule fits."""
    auto_creation: Literal["rules", "allow", "deny"] = "rules"
    """Whether a broker may create a topic because a client asks for its metadata: `rules` if the client may manage it,
    `allow` as the broker is set, `deny` never."""

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem if there is no rule."""
        if not self.rules:
            yield Problem(
                "rules", "no rule", "at least one: without any, a chain needs no such policy"
            )


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
        ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT,  # a pattern: its records come by Fetch
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
