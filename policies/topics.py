"""`topics`: which clients may read, write and manage which topics and consumer groups.

    - use: topics
      config:
        rules:                            # the first rule that fits decides
          - {topics: ['public.*']}
          - {user: billing, topics: ['billing.*'], groups: ['billing-*']}
          - {user: reports, topics: ['billing.*'], access: [read]}
        default: deny

Rules:
- A topic or group is judged by its name; an id without a known name is refused until the client has asked for it.
- Topics that the client may not use are denied, and the rest of the request reaches the broker (`policies.denial`).
- To see a topic, any access is enough: its metadata, its offsets, its settings.
- A request about topics that it does not name needs the right to manage all of them, unless it only lists names or its
  topics are judged elsewhere (`_OPEN`).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from policies.api import FORWARD, Forward, Need, Policy, PolicyConfigError, Reject
from policies.denial import Deny
from policies.name_patterns import NamePatterns
from policies.topic_settings import Access, TopicsConfig
from policies.verdicts import short_repr
from wire.apis import OFFERED, ApiKey
from wire.errors import ErrorCode
from wire.request_layouts import names_anything

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.api import Host, Peer, Request
    from policies.denial import TopicKey


MAX_CLIENTS: Final = 10_000
"""Clients whose rules are remembered; beyond it they are found again."""
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
_ANY: Final = frozenset(Access)
_OPEN: Final = frozenset(
    {
        ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.DESCRIBE_ACLS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,  # a pattern: its records come by Fetch
        ApiKey.SHARE_FETCH,  # its topics were judged when the session named them
    }
)  # fmt: skip
_NO_GROUP: Final = Reject(ErrorCode.GROUP_AUTHORIZATION_FAILED, message="no rule allows this group")
_NOT_ALL: Final = Reject(
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, message="it is about topics that it does not name"
)
_NO_TOPIC: Final = "no rule allows this topic"
_Kind: TypeAlias = Literal[0, 1]
_TOPICS: Final = 0
_GROUPS: Final = 1


class _Step(NamedTuple):
    """A rule, for a client that it fits."""

    topics: NamePatterns
    groups: NamePatterns
    access: frozenset[Access]
    allows: bool


class TopicRules(Policy):
    """Denies topics and groups that no rule allows."""

    Config = TopicsConfig
    apis = frozenset(key for key in OFFERED if names_anything(key))
    response_apis = frozenset()
    needs = Need.TOPICS
    max_versions: Mapping[int, int] = MappingProxyType(
        {ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.DELETE_GROUPS: 2, ApiKey.STREAMS_GROUP_DESCRIBE: 0}
    )
    """Later ones cannot be read (`wire.request_layouts`)."""

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        if not isinstance(config, TopicsConfig):
            raise PolicyConfigError("", f"expected a TopicsConfig, got {short_repr(config)}")
        self._default = config.default == "allow"
        self._rules = [
            (
                NamePatterns.of([rule.user]),
                NamePatterns.of([rule.client_id]),
                _Step(
                    NamePatterns.of(rule.topics),
                    NamePatterns.of(rule.groups),
                    frozenset(rule.access),
                    rule.effect == "allow",
                ),
            )
            for rule in config.rules
        ]
        self._steps: dict[tuple[str, str], tuple[_Step, ...]] = {}
        self._denied = host.counter(
            "denied_topics", "Topics and groups that no rule allowed.", ("kind",)
        )

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Deny | Reject:
        """Deny the topics that the client may not touch; refuse a request of a group that it may not use."""
        key = request.api_key
        needed = _needed(key)
        steps = self._steps_of(peer)
        if not request.topics_complete and key not in _OPEN and not self._may_manage_all(steps):
            self._denied.add(1, "unnamed")
            return _NOT_ALL
        for group in request.groups:
            if not self._allows(steps, _GROUPS, group, needed):
                self._denied.add(1, "group")
                return _NO_GROUP
        denied: dict[TopicKey | tuple[TopicKey, int], int] = {}
        for topic in request.topics:
            name = topic.name
            if name is None:
                if key != ApiKey.METADATA:  # its reply tells the name
                    denied[topic.key] = ErrorCode.UNKNOWN_TOPIC_ID
            elif not self._allows(steps, _TOPICS, name, needed):
                denied[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if not denied:
            return FORWARD
        self._denied.add(len(denied), "topic")
        return Deny(denied, _NO_TOPIC)

    def on_disconnect(self, peer: Peer, now_ms: int) -> None:
        """Forget the rules of this client; they are found again for another connection."""
        self._steps.pop((peer.user, peer.client_id), None)

    def _allows(
        self, steps: tuple[_Step, ...], kind: _Kind, name: str, needed: frozenset[Access]
    ) -> bool:
        """Return whether the client has one of the kinds of access that are needed."""
        for access in needed:
            for step in steps:
                if access in step.access and step[kind].has(name):
                    if step.allows:
                        return True
                    break
            else:
                if self._default:
                    return True
        return False

    def _may_manage_all(self, steps: tuple[_Step, ...]) -> bool:
        for step in steps:
            if Access.MANAGE in step.access and step.topics:
                if not step.allows:
                    return False
                if step.topics.everything:
                    return True
        return self._default

    def _steps_of(self, peer: Peer) -> tuple[_Step, ...]:
        """Return the rules that fit this client, in their order."""
        client = peer.user, peer.client_id
        steps = self._steps.get(client)
        if steps is None:
            if len(self._steps) >= MAX_CLIENTS:
                self._steps.clear()
            steps = self._steps[client] = tuple(
                step
                for users, client_ids, step in self._rules
                if users.has(peer.user) and client_ids.has(peer.client_id)
            )
        return steps


def _needed(api_key: int) -> frozenset[Access]:
    """Return the kinds of access of which one is enough for requests of this API."""
    if api_key in _SEEING:
        return _ANY
    if api_key in _READING:
        return _READ
    return _WRITE if api_key in _WRITING else _MANAGE


_READ, _WRITE, _MANAGE = (frozenset({each}) for each in Access)
