"""`topics`: which clients may read, write and manage which topics and consumer groups.

    - use: topics
      config:
        rules:                            # the first rule that fits decides
          - {topics: ['public.*']}
          - {user: billing, topics: ['billing.*'], groups: ['billing-*']}
          - {user: reports, topics: ['billing.*'], access: [read]}
        default: deny
        auto_creation: rules

Rules:
- A topic or group is judged by its name; an id without a known name is refused until the client has asked for it.
- Topics and groups that the client may not use are denied, and the rest of the request reaches the broker
  (`policies.denial`).
- To see a topic, any access is enough: its metadata, its offsets, its settings.
- A request about topics that it does not name needs the right to manage all of them, unless its reply is cut or its
  topics are judged elsewhere (`topic_access.OPEN`).
- Replies that list topics and groups are cut: a client sees those of which it has any access (`policies.listings`).
- Metadata of a topic that the client may not manage does not create it: the broker is told so, from v4 on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from policies import listings
from policies.api import FORWARD, Forward, Need, Patch, Policy, PolicyConfigError, Reject
from policies.denial import Deny
from policies.name_patterns import NamePatterns
from policies.topic_settings import ANY, MANAGE, OPEN, Access, TopicsConfig, access_needed
from policies.verdicts import short_repr
from wire.apis import OFFERED, ApiKey
from wire.authorization import Ask, ResourceType, checks_of
from wire.errors import ErrorCode
from wire.metadata import auto_creation_at
from wire.request_layouts import names_anything

if TYPE_CHECKING:
    from policies.api import Host, Peer, Replace, Request, Response
    from policies.denial import DenyKey, TopicKey


MAX_CLIENTS: Final = 10_000
"""Clients whose rules are remembered; beyond it they are found again."""
_LISTING: Final = frozenset(key for key in listings.LISTED if not names_anything(key))
"""They name neither topics nor groups; their replies are cut."""
_FIRST_WITH_FLAG: Final = 4
"""The first version of Metadata that says whether topics may be created."""
_NO_GROUP: Final = Reject(ErrorCode.GROUP_AUTHORIZATION_FAILED, message="no rule allows this group")
_NOT_ALL: Final = Reject(
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, message="it is about topics that it does not name"
)
_NO_TOPIC: Final = "no rule allows this topic"
_CREATES: Final = "Metadata below v4 would create the topic, which no rule allows"
_Kind: TypeAlias = Literal[0, 1]
_TOPICS: Final = 0
_GROUPS: Final = 1
_GROUP: Final = ResourceType.GROUP


class _Step(NamedTuple):
    """A rule, for a client that it fits."""

    topics: NamePatterns
    groups: NamePatterns
    access: frozenset[Access]
    allows: bool


class TopicRules(Policy):
    """Denies topics and groups that no rule allows."""

    Config = TopicsConfig
    apis = frozenset(key for key in OFFERED if names_anything(key)) | _LISTING
    response_apis = listings.LISTED - {ApiKey.DESCRIBE_CONFIGS}  # it names all its resources
    hears_body = response_apis
    needs = Need.TOPICS

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        if not isinstance(config, TopicsConfig):
            raise PolicyConfigError("", f"expected a TopicsConfig, got {short_repr(config)}")
        self._default = config.default == "allow"
        self._auto_creation = config.auto_creation
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
        """Deny the topics and groups that the client may not touch."""
        key = request.api_key
        if key in _LISTING:
            return FORWARD
        needed = access_needed(key)
        steps = self._steps_of(peer)
        if not request.topics_complete and key not in OPEN and not self._may_manage_all(steps):
            self._denied.add(1, "unnamed")
            return _NOT_ALL
        groups = [each for each in request.groups if not self._allows(steps, _GROUPS, each, needed)]
        if groups:
            self._denied.add(len(groups), "group")
            if len(groups) == len(request.groups):
                return _NO_GROUP
        denied: dict[DenyKey, int] = {}
        for topic in request.topics:
            name = topic.name
            if name is None:
                if key != ApiKey.METADATA:  # its reply tells the name
                    denied[topic.key] = ErrorCode.UNKNOWN_TOPIC_ID
            elif not self._allows(steps, _TOPICS, name, needed):
                denied[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if denied:
            self._denied.add(len(denied), "topic")
        creates = self._created_by(request, steps) - denied.keys()
        if creates and request.api_version < _FIRST_WITH_FLAG:
            self._denied.add(len(creates), "creation")
            denied |= dict.fromkeys(creates, ErrorCode.UNSUPPORTED_VERSION)
            return Deny(denied, _CREATES)
        if groups:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            (operation,) = {c.operation for c in checks_of(request.api) if c.kind is _GROUP}
            denied |= {Ask(_GROUP, each, operation, code): int(code) for each in groups}
            return Deny(denied, _NO_GROUP.message, self.host.name)
        deny = Deny(denied, _NO_TOPIC, self.host.name)
        if creates and (patches := _without_creation(request)):
            return Forward(patches, denials=(deny,) if denied else ())
        return deny if denied else FORWARD

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | Replace:
        """Cut the topics and groups out of a listing of which the client has no access."""
        steps = self._steps_of(peer)
        if self._default and all(step.allows for step in steps):
            return FORWARD
        return listings.without(
            request,
            response,
            allows=lambda kind, name, _: (
                kind == ResourceType.TRANSACTIONAL_ID
                or self._allows(
                    steps, _TOPICS if kind == ResourceType.TOPIC else _GROUPS, name, ANY
                )
            ),
            topic_name=self.host.topic_name,
            log=self.host.log,
        )

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

    def _created_by(self, request: Request, steps: tuple[_Step, ...]) -> set[TopicKey]:
        """Return the topics that a Metadata request may not create, and would if they do not exist."""
        if request.api_key != ApiKey.METADATA or self._auto_creation == "allow":
            return set()
        names = [topic.name for topic in request.topics if topic.topic_id is None]
        return {
            name
            for name in names
            if name is not None
            and (self._auto_creation == "deny" or not self._allows(steps, _TOPICS, name, MANAGE))
        }

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


def _without_creation(request: Request) -> tuple[Patch, ...]:
    """Return the patch with which a Metadata request (v4+) creates no topic; none if it does not ask for that."""
    body = request.body or b""
    at = auto_creation_at(body, request.api_version)
    return (Patch(at, b"\0"),) if body[at] else ()
