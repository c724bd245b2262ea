"""What of a request a client may not do: the checks of `wire.authorization`, in Kafka's order.

Rules:
- The first check that fails of those that refuse a request whole decides; items that were refused before it do not
  count. Refused items leave the others alone.
- A topic whose id has no known name is refused as unknown. In a Metadata it passes: the reply names it, and is judged.
- Topics that a request names are all judged. A request about topics that it does not name, or whose names were not
  read, is refused, unless its reply is filtered, or its session was judged before.
- Kafka's own topics never take part in a transaction, whoever asks.
- A pattern of topics needs DESCRIBE on every topic: the broker does not know these rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from wire.apis import OFFERED, ApiKey, known
from wire.authorization import (
    RESOURCE_APIS,
    Ask,
    Operation,
    ResourceType,
    Scope,
    checks_of,
)
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.access.rights import Subject
    from policies.api import Request
    from policies.denial import DenyKey
    from wire.apis import Api
    from wire.authorization import Check

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
"""Kafka: `Topic.INTERNAL_TOPICS`."""
UNNAMED: Final = frozenset(
    {
        ApiKey.METADATA, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,  # null means all: their replies are filtered
        ApiKey.FETCH,  # a session of it never reaches the broker
        ApiKey.SHARE_FETCH,  # its topics are in the books
        ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT,  # a pattern has an ask of its own
    }
)  # fmt: skip
"""Requests that may be about topics that they do not name."""
BY_ACT_ALONE: Final = frozenset(
    key
    for key in RESOURCE_APIS & OFFERED.keys()
    for api in (known(key, OFFERED[key][0]),)
    if api is not None and all(each.kind is ResourceType.CLUSTER for each in checks_of(api))
)
"""Requests that need one act, whatever they name."""


class Judgement(NamedTuple):
    """What is refused: the whole request, or items."""

    whole: Ask | None
    """What refuses the request whole; its code is the reply's."""
    items: dict[DenyKey, Ask]
    """What refuses each item, by what `Deny` calls it."""


def judge(request: Request, subject: Subject) -> Judgement:
    """Return what of this request the client may not do. Raises LookupError for an API that is not known."""
    api = request.api
    items: dict[DenyKey, Ask] = {}
    for check in checks_of(api):
        refused = _refused(check, request, subject)
        if check.scope is Scope.REQUEST:
            for _, ask in refused:
                return Judgement(ask, {})
        else:
            items.update((key, ask) for key, ask in refused if key not in items)
    if not request.topics_complete and (unnamed := _unnamed(api)) is not None:
        return Judgement(unnamed, {})
    return Judgement(None, items)


def all_refusals(request: Request, subject: Subject) -> tuple[Ask, ...]:
    """Return all that the client asks for and may not do, also what comes after a refusal of the whole request.

    Raises LookupError as `judge`.
    """
    refused = (_refused(check, request, subject) for check in checks_of(request.api))
    asks = dict.fromkeys(ask for each in refused for _, ask in each)
    if not request.topics_complete and (unnamed := _unnamed(request.api)) is not None:
        asks.setdefault(unnamed)
    return tuple(asks)


def _refused(check: Check, request: Request, subject: Subject) -> Iterator[tuple[DenyKey, Ask]]:
    """Yield what fails of one check."""
    kind, operation, code = check.kind, check.operation, check.code
    if kind is ResourceType.TOPIC:
        yield from _refused_topics(check, request, subject)
    elif kind is ResourceType.CLUSTER:
        is_asked = check.act in request.acts or request.api_key in BY_ACT_ALONE
        if is_asked and not may_act(subject, check.act):
            ask = Ask(kind, check.act, operation, code)
            yield ask, ask
    else:
        named = request.groups if kind is ResourceType.GROUP else request.transactional_ids
        for name in named:
            if not subject.mask(kind, name) >> operation & 1:
                ask = Ask(kind, name, operation, code)
                yield ask, ask


def _refused_topics(
    check: Check, request: Request, subject: Subject
) -> Iterator[tuple[DenyKey, Ask]]:
    kind, operation, code = check.kind, check.operation, check.code
    key = request.api_key
    if operation is Operation.CREATE and key != ApiKey.CREATE_TOPICS:
        if key != ApiKey.METADATA:  # which is not refused for it: see `policies.access.creation`
            for created in request.created:
                if not subject.topic(created) >> operation & 1:
                    yield created, Ask(kind, created, operation, code)
        return
    all_or_nothing = check.scope is Scope.ALL_OR_NOTHING
    for topic in request.topics:
        name = topic.name
        if name is None:
            if topic.topic_id is not None and key != ApiKey.METADATA:
                unknown = Ask(kind, topic.topic_id, operation, ErrorCode.UNKNOWN_TOPIC_ID)
                yield topic.topic_id, unknown
        elif not subject.topic(name) >> operation & 1 or (
            all_or_nothing and name in INTERNAL_TOPICS
        ):
            yield name, Ask(kind, name, operation, code)
    if request.has_pattern and not subject.all_topics() >> operation & 1:
        ask = Ask(kind, None, operation, code)
        yield ask, ask


def may_act(subject: Subject, act: str) -> bool:
    """Return whether a client may do an act on the cluster; WRITE on any topic gives idempotent writing."""
    return act in subject.acts or (act == "idempotent-write" and subject.writes_idempotently())


def _unnamed(api: Api) -> Ask | None:
    """Return what refuses a request about topics that it does not name; None if something else judges them."""
    if api.key in UNNAMED or api.key in BY_ACT_ALONE:
        return None
    first = checks_of(api)[0]
    return Ask(first.kind, None, first.operation, first.code)
