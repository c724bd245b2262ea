"""Describing: Kafka's filters over the quotas in force, and Sluice's two views of its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.quota.describe import (
    ORIGIN,
    USAGE,
    USAGE_ENTRIES,
    Filter,
    InvalidFilter,
    describe_quotas,
    describe_usage,
    group_by_entity,
    named_entity,
    parse_filter,
)
from policies.quota.entity import DEFAULT_NAME, ClientQuotas, QuotaEntity
from policies.quota.sensors import BucketMetrics
from wire.client_quotas import Component, Match
from wire.errors import ErrorCode

EXACT, DEFAULT, SPECIFIED = Match
NAMES = ("a", "b", DEFAULT_NAME, None)
EVERYONE = [QuotaEntity(u, c) for u in NAMES for c in NAMES if u is not None or c is not None]


def row(
    user: str,
    client_id: str,
    key: str = "request_rate",
    limit: float = 10.0,
    rate: float = 5.0,
    throttle_avg_ms: float | None = None,
    throttle_max_ms: int | None = None,
    waiting: int = 0,
) -> BucketMetrics:
    return BucketMetrics(
        user, client_id, key, limit, rate, throttle_avg_ms, throttle_max_ms, waiting
    )


def made(*components: tuple[str, int, str | None], strict: bool = False) -> Filter:
    told = parse_filter([Component(*each) for each in components], strict=strict)
    assert isinstance(told, Filter)
    return told


def found(*components: tuple[str, int, str | None], strict: bool = False) -> set[QuotaEntity]:
    """Of everyone with a quota, who is described."""
    book = ClientQuotas()
    for entity in EVERYONE:
        book.set(entity, "request_rate", 1.0)
    named = {named_entity(entity): entity for entity in EVERYONE}
    return {
        named[each.entity]
        for each in describe_quotas(group_by_entity(book), made(*components, strict=strict))
    }


def who(*pairs: tuple[str | None, str | None]) -> set[QuotaEntity]:
    return {QuotaEntity(*pair) for pair in pairs}


def test_entities_are_found_by_name_by_default_or_by_any_name() -> None:
    """An empty filter finds all; strict finds this entity alone and, if empty, none (ClientQuotasImage, case 3)."""
    assert found() == set(EVERYONE)
    assert found(strict=True) == set()

    assert found(("user", EXACT, "a"), strict=True) == who(("a", None))
    assert found(("user", EXACT, "a")) == {each for each in EVERYONE if each.user == "a"}
    assert found(("user", EXACT, "stranger")) == set()
    assert found(("user", EXACT, DEFAULT_NAME)) == set()
    both = (("client-id", EXACT, "b"), ("user", EXACT, "a"))
    assert found(*both) == found(*both, strict=True) == who(("a", "b"))

    assert found(("user", DEFAULT, None), strict=True) == who((DEFAULT_NAME, None))
    both = (("user", DEFAULT, None), ("client-id", DEFAULT, None))
    assert found(*both) == who((DEFAULT_NAME, DEFAULT_NAME))

    assert found(("client-id", SPECIFIED, None), strict=True) == who(
        (None, "a"), (None, "b"), (None, DEFAULT_NAME)
    )
    assert found(("user", SPECIFIED, None), ("client-id", EXACT, "b")) == who(
        ("a", "b"), ("b", "b"), (DEFAULT_NAME, "b")
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["user", "client-id"]),
            st.sampled_from([(EXACT, "a"), (EXACT, "z"), (DEFAULT, None), (SPECIFIED, None)]),
        ),
        unique_by=lambda each: each[0],
    )
)
def test_a_strict_filter_finds_a_part_of_the_other(
    conditions: list[tuple[str, tuple[Match, str | None]]],
) -> None:
    """Strict leaves out those with more types, and nothing else."""
    components = [(kind, *how) for kind, how in conditions]
    wide = found(*components)
    narrow = {each for each in wide if len(named_entity(each)) == len(components)}
    assert found(*components, strict=True) == (narrow if components else set())


@pytest.mark.parametrize(
    ("components", "code", "words"),
    [
        ([("", EXACT, "a")], 42, "Invalid empty entity type."),
        ([("user", EXACT, "a"), ("user", SPECIFIED, None)], 42, "cannot appear more than once"),
        ([(USAGE, SPECIFIED, None), (USAGE, SPECIFIED, None)], 42, "cannot appear more than once"),
        ([("group", EXACT, "a")], 35, "Unsupported entity type group"),
        ([("user", EXACT, None)], 42, "MATCH_TYPE_EXACT, but set match string to null."),
        ([("user", DEFAULT, "a")], 42, "MATCH_TYPE_DEFAULT, but also specified a match string."),
        ([("user", SPECIFIED, "a")], 42, "MATCH_TYPE_SPECIFIED, but also specified"),
        ([("user", 7, None)], 42, "Unknown match type 7"),
        ([("user", -1, None)], 42, "Unknown match type -1"),
        ([("user", EXACT, "a"), ("ip", SPECIFIED, None)], 42, "IP filter component should not"),
        ([("ip", EXACT, "a"), (ORIGIN, SPECIFIED, None)], 42, "IP filter component should not"),
        ([(USAGE, EXACT, "a")], 42, "takes any name"),
        ([(USAGE, SPECIFIED, None), (ORIGIN, SPECIFIED, None)], 42, "no other view beside it"),
    ],
)
def test_filters_that_cannot_be_used(
    components: list[tuple[str, int, str | None]], code: int, words: str
) -> None:
    """Kafka's codes and words."""
    told = parse_filter([Component(*each) for each in components], strict=False)
    assert isinstance(told, InvalidFilter)
    assert told.code == ErrorCode(code)
    assert words in told.message


def test_a_filter_by_ip_is_valid() -> None:
    """Whether it is forwarded is decided elsewhere."""
    assert made(("ip", DEFAULT, None)).conditions == (("ip", DEFAULT, None),)


def test_all_keys_of_an_entity_are_in_one_entry() -> None:
    """With origins there is one entry for the file's keys and one for the live ones."""
    book = ClientQuotas()
    alice = QuotaEntity("alice", DEFAULT_NAME)
    book.set(alice, "request_rate", 5.0)
    book.set(alice, "consumer_byte_rate", 9.0)
    book.set_override(alice, "request_rate", 6.0)
    named = (("user", "alice"), ("client-id", None))
    (entry,) = describe_quotas(group_by_entity(book), made())
    assert entry.entity == named
    assert dict(entry.values) == {"request_rate": 6.0, "consumer_byte_rate": 9.0}
    seen = {
        each.entity: dict(each.values)
        for each in describe_quotas(group_by_entity(book), made((ORIGIN, SPECIFIED, None)))
    }
    assert seen == {
        (*named, (ORIGIN, "override")): {"request_rate": 6.0},
        (*named, (ORIGIN, "file")): {"consumer_byte_rate": 9.0},
    }
    assert (
        describe_quotas(
            group_by_entity(book), made((ORIGIN, SPECIFIED, None), ("user", EXACT, "bob"))
        )
        == []
    )


def test_usage_has_an_entry_for_each_bucket() -> None:
    """The figures of all keys of a user and client id are in one entry; without a throttle there is no such figure."""
    rows = [
        row("alice", "", throttle_avg_ms=20.0, throttle_max_ms=50, waiting=3),
        row("alice", "", key="producer_byte_rate", limit=1000.0, rate=1200.0),
        row("", "report"),
    ]
    entries, message = describe_usage(rows, made((USAGE, SPECIFIED, None)))
    assert message is None
    assert {each.entity: dict(each.values) for each in entries} == {
        (("user", "alice"),): {
            "request_rate.limit": 10.0,
            "request_rate.rate": 5.0,
            "request_rate.throttle_avg_ms": 20.0,
            "request_rate.throttle_max_ms": 50.0,
            "request_rate.waiting": 3,
            "producer_byte_rate.limit": 1000.0,
            "producer_byte_rate.rate": 1200.0,
            "producer_byte_rate.waiting": 0,
        },
        (("client-id", "report"),): {
            "request_rate.limit": 10.0,
            "request_rate.rate": 5.0,
            "request_rate.waiting": 0,
        },
    }


def test_usage_can_be_filtered_by_entity() -> None:
    """The other components of the filter choose among the buckets."""
    rows = [row("alice", "x"), row("alice", ""), row("bob", "x")]
    entries, _ = describe_usage(rows, made((USAGE, SPECIFIED, None), ("user", EXACT, "alice")))
    assert {each.entity for each in entries} == {
        (("user", "alice"), ("client-id", "x")),
        (("user", "alice"),),
    }
    entries, _ = describe_usage(
        rows, made((USAGE, SPECIFIED, None), ("user", SPECIFIED, None), strict=True)
    )
    assert {each.entity for each in entries} == {(("user", "alice"),)}


def test_the_busiest_buckets_come_first_and_the_list_is_bounded() -> None:
    """The bucket nearest to its limit comes first, and of shared buckets it alone; the message gives their number."""
    rows = [row(f"u{n}", "", rate=float(n)) for n in range(USAGE_ENTRIES + 5)]
    entries, message = describe_usage(rows, made((USAGE, SPECIFIED, None)))
    assert [each.entity[0][1] for each in entries[:2]] == ["u1004", "u1003"]
    assert len(entries) == USAGE_ENTRIES
    assert message == "The busiest 1000 of 1005."

    rows = [row(DEFAULT_NAME, "", rate=each) for each in (2.0, 9.0, 4.0)]
    ((entity, values),), _ = describe_usage(rows, made((USAGE, SPECIFIED, None)))
    assert entity == (("user", None),)
    assert dict(values)["request_rate.rate"] == 9.0
