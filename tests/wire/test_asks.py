"""The rights that a request asks for are those that Kafka's authorizer demands, by the golden `authorization_facts`."""

import csv
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.golden import GOLDEN
from tests.support.messages.kafka_messages import api_of, apis_known, changed, messages_of
from wire import codec
from wire.apis import BY_KEY_AND_VERSION, Api, ApiKey, key_named
from wire.asks import asks_of
from wire.authorization import (
    ACTS,
    AUTHORIZED,
    MAX_VERSIONS,
    RESOURCE_APIS,
    Ask,
    Operation,
    ResourceType,
    Scope,
    act_of,
    checks_of,
    is_authorized,
)
from wire.errors import ErrorCode
from wire.request_layouts import in_range, layout_of, names_anything
from wire.request_names import RequestNames, read_names
from wire.topic_refs import TopicRef

EVERY = [api for api in apis_known() if is_authorized(api)]
KNOWN_ID, NAME_OF_IT = UUID(int=7), "seventh"
NAMES = {KNOWN_ID.bytes: NAME_OF_IT}
TOKENS = {
    ApiKey.CREATE_DELEGATION_TOKEN: (Operation.CREATE_TOKENS, 65),
    ApiKey.RENEW_DELEGATION_TOKEN: (Operation.CREATE_TOKENS, 63),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (Operation.CREATE_TOKENS, 63),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (Operation.DESCRIBE_TOKENS, 65),
}
"""A client's own tokens need no right in Kafka. Here they need the act `tokens`, because a broker may take Sluice's
user for the client's."""


class Fact(NamedTuple):
    """One line of the facts."""

    api: str
    versions: str
    kind: str
    operation: str
    code: str
    scope: str
    field: str
    when: str
    or_: str


PATTERNS = [
    Fact(
        *("StreamsGroupHeartbeat", "0+", "topic", "DESCRIBE", "0", "hidden"),
        *("Topology/Subtopologies/SourceTopicRegex", "not empty", ""),
    )
]
"""No broker of 4.4 selects topics by it; a broker that does would not ask whether the client may see them."""
TEXT = (GOLDEN / "authorization_facts.csv").read_text("utf-8")
FACTS = [Fact(*row) for row in csv.reader(TEXT.splitlines()[1:])]


def facts_of(api: Api) -> list[Fact]:
    """The checks of this version, in Kafka's order."""
    return [
        fact
        for fact in FACTS
        if fact.api == api.name and fact.kind and in_range(api.version, fact.versions)
    ]


def snake(name: str) -> str:
    """The codec's name of a field."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def leaves(value: object, path: list[str]) -> Iterator[tuple[object, object]]:
    """The values at a path, each with the struct that has it; none of an array that is null."""
    inner = getattr(value, path[0])
    if inner is None and path[0].endswith("s"):
        return
    if len(path) == 1:
        yield from ((each, value) for each in (inner if isinstance(inner, tuple) else (inner,)))
    else:
        for each in inner if isinstance(inner, tuple) else (inner,):
            if each is not None:
                yield from leaves(each, path[1:])


def holds(fact: Fact, value: object, struct: object) -> bool:
    """Whether the check is made of this value."""
    number = getattr(struct, "key_type", getattr(struct, "resource_type", 0))
    match fact.when:
        case "":
            return True
        case "null":
            return value is None
        case "not null":
            return value is not None
        case "not null and a batch is transactional":  # none that is drawn is one whole batch
            partitions = [each for topic in struct.topic_data for each in topic.partition_data]  # type: ignore[attr-defined]
            return value is not None and bool(partitions)
        case "not empty":
            return bool(value)
        case ">= 0":
            return isinstance(value, int) and value >= 0
        case "another ResourceType":
            return number not in {2, 32}
        case "AllowAutoTopicCreation":
            return bool(getattr(struct, "allow_auto_topic_creation", True))
    kind, _, expected = fact.when.partition(" ")
    assert kind in {"KeyType", "ResourceType"}
    return bool(number == int(expected))


def named_by(fact: Fact, message: object) -> Iterator[tuple[object, object]]:
    """What the check is about, and the struct that has it: nothing, if the request as a whole asks for an act."""
    if fact.kind == "cluster" and not fact.when:
        return iter([(None, message)])
    return leaves(message, [snake(each) for each in fact.field.split("/")])


def expected(api: Api, message: object) -> Iterator[Ask]:
    """Find the rights in the decoded request, by the facts."""
    act = act_of(api)
    if api.key in TOKENS:
        operation, code = TOKENS[ApiKey(api.key)]
        yield Ask(ResourceType.CLUSTER, act, operation, ErrorCode(code))
        return
    for fact in [*facts_of(api), *PATTERNS]:
        if fact.api != api.name:
            continue
        kind, operation = ResourceType[fact.kind.upper()], Operation[fact.operation]
        hidden = int(fact.code) == 0  # a broker leaves it out, or answers without a code
        code = ErrorCode(int(fact.code) or (31 if kind is ResourceType.CLUSTER else 29))
        for value, struct in named_by(fact, message):
            owner = message if fact.when == "AllowAutoTopicCreation" else struct
            if not holds(fact, value, owner):
                continue
            if kind is ResourceType.CLUSTER:
                yield Ask(kind, act, operation, code)
            elif hidden and operation is Operation.DESCRIBE:  # a pattern
                yield Ask(kind, None, operation, code)
            elif kind is not ResourceType.TOPIC:
                yield Ask(kind, str(value or ""), operation, code)
            elif (key := topic_key(fact, value, struct)) is not None:
                yield Ask(kind, key, operation, code)


def topic_key(fact: Fact, value: object, struct: object) -> str | bytes | None:
    """The name of a topic, or its id; None if the other one of both counts."""
    raw = getattr(struct, "topic_id", None)
    by_id = fact.field.endswith("TopicId")
    if not by_id and raw is not None:
        return None
    if not by_id:
        return value if isinstance(value, str) else None if fact.operation == "CREATE" else b""
    if raw is None:
        return None if hasattr(struct, "name") else bytes(16)
    return NAMES.get(raw.bytes, raw.bytes)


def with_kinds(data, api, message):
    """The same with types that exist, and with the id of a topic whose name is known.

    In Metadata v10 and v11 there is none: a broker refuses it.
    """
    by_id = any(fact.field.endswith("TopicId") for fact in facts_of(api))

    def change(struct, owner):
        del owner
        values = {
            "key_type": st.sampled_from([0, 1, 2]),
            "resource_type": st.sampled_from([2, 4, 8, 16, 32]),
            "topic_id": st.sampled_from([KNOWN_ID, None, getattr(struct, "topic_id", None)])
            if by_id
            else st.none(),
        }
        there = {field.name for field in fields(struct)} & values.keys()
        return replace(struct, **{each: data.draw(values[each]) for each in sorted(there)})

    return changed(message, change)


@for_each(EVERY, examples=16)
def test_a_request_asks_for_what_kafkas_authorizer_demands(api, data):
    """Of every API and version, by any message: each right once, in the order of the facts."""
    message = with_kinds(data, api, data.draw(messages_of(codec.request_shape(api))))
    body = codec.encode(message)
    asks = asks_of(api, read_names(api, body, 0, len(body), NAMES))
    wanted = [*expected(api, message)]
    assert len(asks) == len(set(asks))
    assert set(asks) == set(wanted)
    order = [*dict.fromkeys((ask.kind, ask.operation) for ask in wanted)]
    places = [order.index((ask.kind, ask.operation)) for ask in asks]
    assert places == sorted(places)


SCOPES = {
    "item": Scope.ITEM,
    "request": Scope.REQUEST,
    "all-or-nothing": Scope.ALL_OR_NOTHING,
    "hidden": Scope.REQUEST,
}
"""A broker leaves out what it hides. It does not know Sluice's rules, so the request is refused."""


@for_each(EVERY)
def test_a_refusal_has_the_place_and_the_code_of_kafkas(api: Api) -> None:
    """One item, the request, or all items."""
    if api.key in TOKENS:
        return
    wanted = {
        (
            ResourceType[fact.kind.upper()],
            Operation[fact.operation],
            int(fact.code) or (31 if fact.kind == "cluster" else 29),
            SCOPES[fact.scope],
        )
        for fact in facts_of(api)
    }
    found = {(c.kind, c.operation, c.code, c.scope) for c in checks_of(api)}
    if api.key == ApiKey.FIND_COORDINATOR and 1 <= api.version < 6:  # of a type that no broker has
        found = {each for each in found if each[0] is not ResourceType.CLUSTER}
    assert found == wanted


def test_of_every_offered_version_it_is_known_which_rights_it_needs() -> None:
    """A version that a release brings is refused until someone has looked at it."""
    offered = {(api.key, api.version) for api in BY_KEY_AND_VERSION.values()}
    assert [each for each in offered if not is_authorized(api_of(*each))] == []
    assert MAX_VERSIONS == {ApiKey.ADD_PARTITIONS_TO_TXN: 3}
    assert {key for key, _ in offered} == AUTHORIZED
    assert {key_named(fact.api) for fact in FACTS} == AUTHORIZED


def test_a_version_that_no_line_has_asks_for_nothing_that_is_known() -> None:
    """An error, and not an empty tuple: a guard that forgets to look at the version refuses it."""
    unknown = api_of(ApiKey.INIT_PRODUCER_ID, 6)
    with pytest.raises(LookupError, match="InitProducerId v6"):
        checks_of(unknown)
    with pytest.raises(LookupError):
        asks_of(unknown, RequestNames((), (), topics_complete=True))
    assert not is_authorized(api_of(ApiKey.LEADER_AND_ISR, 0))
    assert act_of(unknown) == ""


@for_each(EVERY)
def test_what_is_asked_about_can_be_read(api: Api) -> None:
    """Names are read by the layout of the version. Without a layout only the act on the cluster can be asked for."""
    kinds = {check.kind for check in checks_of(api)}
    assert (api.key in RESOURCE_APIS) or not kinds
    if not names_anything(api.key):
        assert kinds <= {ResourceType.CLUSTER}
    else:
        assert layout_of(api) is not None
    assert len([check for check in checks_of(api) if check.act]) <= 1
    assert {check.act for check in checks_of(api)} <= {"", "replicate", *ACTS}


def test_a_request_that_names_nothing_is_not_read() -> None:
    """AlterClientQuotas asks for an act whatever it says; ListGroups asks for nothing."""
    api = api_of(ApiKey.ALTER_CLIENT_QUOTAS, 1)
    (ask,) = asks_of(api, read_names(api, b"\xff", 0, 1, {}))
    assert ask == (ResourceType.CLUSTER, "alter-quotas", Operation.ALTER_CONFIGS, 31)
    none = api_of(ApiKey.LIST_GROUPS, 5)
    assert asks_of(none, read_names(none, b"\xff", 0, 1, {})) == ()


def test_each_right_is_asked_for_once() -> None:
    """A topic that a request names twice is one topic."""
    twice = RequestNames(
        (TopicRef("a", None, (1,)), TopicRef("a", None, (2,))), (), topics_complete=True
    )
    api = api_of(ApiKey.PRODUCE, 9)
    assert asks_of(api, twice) == (
        (ResourceType.TOPIC, "a", Operation.WRITE, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    )


def test_an_act_is_the_name_of_what_a_rule_can_allow() -> None:
    """No rule makes a client a replica."""
    assert "replicate" not in ACTS
    assert set(ACTS) >= {"alter-configs", "idempotent-write", "tokens"}
