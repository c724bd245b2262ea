"""What of a request a client may not do: the checks of `wire.authorization`, in Kafka's order.

Rules:
- The first check that fails of those that refuse a request whole decides; items that were refused before it do not
  count. Refused items leave the others alone.
- A topic whose id has no known name is refused as unknown. In a Metadata it passes: the reply names it, and is judged.
- Topics that a request names are all judged. A request about topics that it does not name, or whose names were not
  read, is refused, unless its reply is filtered, or its session was judged before.
- Kafka's own topics never take part in a transaction, whoever asks.
- A pattern of topics needs DESCRIBE on every topic: the broker does not know these rules (and
  `policies.access.subscription`).
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

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
    from collections.abc import Generator, Iterator

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
STEP_NAMES: Final = 500
"""Names that are judged between two pauses."""
MAX_REFUSALS: Final = 1_000
"""Of one request, that are told in mode `observe`."""
BY_ACT_ALONE: Final = frozenset(
    key
    for key in RESOURCE_APIS & OFFERED.keys()
    for api in (known(key, OFFERED[key][0]),)
    if api is not None and all(each.kind is ResourceType.CLUSTER for each in checks_of(api))
)
"""Requests that need one act, whatever they name."""

_Refused: TypeAlias = "tuple[DenyKey, Ask] | None"
"""What `Deny` calls an item, and what refuses it; None: a pause."""
_new: Final = tuple.__new__  # an Ask's own __new__ takes twice the time


class Judgement(NamedTuple):
    """What is refused: the whole request, or items."""

    whole: Ask | None
    """What refuses the request whole; its code is the reply's."""
    items: dict[DenyKey, Ask]
    """What refuses each item, by what `Deny` calls it."""


def judge(request: Request, subject: Subject) -> Judgement:
    """Return what of this request the client may not do. Raises LookupError for an API that is not known."""
    steps = judging(request, subject)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Judgement = end.value
            return found


def judging(request: Request, subject: Subject) -> Generator[None, None, Judgement]:
    """Do as `judge`, with a pause after each STEP_NAMES names."""
    api = request.api
    items: dict[DenyKey, Ask] = {}
    for check in checks_of(api):
        for found in _refused(check, request, subject):
            if found is None:
                yield
            elif check.scope is Scope.REQUEST:
                return Judgement(found[1], {})
            else:
                items.setdefault(*found)
    if not request.topics_complete and (unnamed := _unnamed(api)) is not None:
        return Judgement(unnamed, {})
    return Judgement(None, items)


def all_refusals(request: Request, subject: Subject) -> tuple[Ask, ...]:
    """Return what the client asks for and may not do, also what comes after a refusal of the whole request.

    At most MAX_REFUSALS of it. Raises LookupError as `judge`.
    """
    found = chain.from_iterable(
        _refused(check, request, subject) for check in checks_of(request.api)
    )
    refused = (each[1] for each in found if each is not None)
    asks = dict.fromkeys(islice(refused, MAX_REFUSALS))
    if not request.topics_complete and (unnamed := _unnamed(request.api)) is not None:
        asks.setdefault(unnamed)
    return tuple(asks)


def _refused(check: Check, request: Request, subject: Subject) -> Iterator[_Refused]:
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
        for number, name in enumerate(named, 1):
            if not subject.mask(kind, name) >> operation & 1:
                ask = Ask(kind, name, operation, code)
                yield ask, ask
            if not number % STEP_NAMES:
                yield None


def _refused_topics(check: Check, request: Request, subject: Subject) -> Iterator[_Refused]:
    kind, operation, code = check.kind, check.operation, check.code
    if operation is Operation.CREATE:
        # A Metadata is not refused for it: see `policies.access.creation`.
        created = () if request.api_key == ApiKey.METADATA else request.created
        for number, name in enumerate(created, 1):
            if not subject.topic(name) >> operation & 1:
                yield name, _new(Ask, (kind, name, operation, code))
            if not number % STEP_NAMES:
                yield None
        return
    all_or_nothing = check.scope is Scope.ALL_OR_NOTHING
    reply_names = request.api_key == ApiKey.METADATA
    for number, topic in enumerate(request.topics, 1):
        named = topic.name
        if named is None:
            if topic.topic_id is not None and not reply_names:
                unknown = Ask(kind, topic.topic_id, operation, ErrorCode.UNKNOWN_TOPIC_ID)
                yield topic.topic_id, unknown
        elif not subject.topic(named) >> operation & 1 or (
            all_or_nothing and named in INTERNAL_TOPICS
        ):
            yield named, _new(Ask, (kind, named, operation, code))
        if not number % STEP_NAMES:
            yield None
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
