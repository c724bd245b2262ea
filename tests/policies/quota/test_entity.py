"""The quota of each client: eight levels, two layers, and the values and names that are allowed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.quota.entity import (
    DEFAULT_NAME,
    KEYS,
    REQUEST_RATE,
    ClientQuotas,
    QuotaEntity,
    ResolvedLimit,
    check_name,
    check_value,
    tags_text,
)
from policies.quota.manager import ClientQuotaManager
from policies.quota.rate import throttle_time_ms
from tests.support.messages.golden import cases

RATE, BYTES = "request_rate", "producer_byte_rate"


def entity(user: str, client_id: str) -> QuotaEntity:
    return QuotaEntity(user or None, client_id or None)


def throttled(manager: ClientQuotaManager, user: str, client_id: str, value: float) -> bool:
    """Record `value` at 0 by Kafka's rule, and judge."""
    bucket = manager.buckets_of(user, client_id, 0).produce
    if bucket is None:
        return False
    bucket.rate.record(value, 0)
    observed, span_ms = bucket.rate.observe(0)
    return throttle_time_ms(observed, bucket.limit, span_ms) > 0


def changing(
    quotas: ClientQuotas, manager: ClientQuotaManager, whose: QuotaEntity, value: float | None
) -> None:
    quotas.set(whose, BYTES, value)
    manager.on_limits_changed()


def test_the_first_level_that_has_a_limit_wins():
    """When the winner is removed the next level wins; each level decides which clients share its bucket."""
    case = cases("quota.entity")["precedence-eight-levels"]
    quotas = ClientQuotas()
    levels = [entity(*names) for names in case["entities"]]
    for rank, each in enumerate(reversed(levels)):
        quotas.set(each, RATE, 8 - rank)
    for rank, (each, tags) in enumerate(zip(levels, case["tags"], strict=True)):
        resolved = quotas.resolve(RATE, "u", "c")
        assert resolved == (
            rank + 1,
            tuple(tags),
            each,
            DEFAULT_NAME in (each.user, each.client_id),
        )
        quotas.set(each, RATE, None)
    assert quotas.resolve(RATE, "u", "c") is None


def test_the_level_the_tags_and_the_key_decide_which_limit_holds():
    """Level 3 comes before level 4; a user's limit is one for all its client ids; each key is resolved by itself."""
    quotas = ClientQuotas()
    quotas.set(QuotaEntity(DEFAULT_NAME, "c"), RATE, 5)
    quotas.set(QuotaEntity("u"), RATE, 7)
    resolved = quotas.resolve(RATE, "u", "c")
    assert resolved is not None
    assert (resolved.limit, resolved.tags) == (7, ("u", ""))

    quotas = ClientQuotas()
    quotas.set(QuotaEntity("u"), RATE, 5)
    found = [quotas.resolve(RATE, *who) for who in (("u", "c1"), ("u", "c2"), ("v", "c1"))]
    assert [each and each.tags for each in found] == [("u", ""), ("u", ""), None]
    assert [each and each.limit for each in found] == [5, 5, None]

    quotas = ClientQuotas()
    quotas.set(QuotaEntity("u"), RATE, 5)
    quotas.set(QuotaEntity("u", "c"), BYTES, 100)
    rate, produced = quotas.resolve(RATE, "u", "c"), quotas.resolve(BYTES, "u", "c")
    assert rate is not None
    assert produced is not None
    assert (rate.tags, produced.tags) == (("u", ""), ("u", "c"))
    assert quotas.resolve("consumer_byte_rate", "u", "c") is None
    assert [quotas.any(key) for key in KEYS] == [True, True, False]


@pytest.mark.parametrize(
    "level", [("", "c"), ("", DEFAULT_NAME), ("u", DEFAULT_NAME), (DEFAULT_NAME, DEFAULT_NAME)]
)
def test_without_a_client_id_no_level_of_client_ids_fits(level):
    """An empty client id means no client, as in Kafka; the user's levels still hold."""
    quotas = ClientQuotas()
    quotas.set(entity(*level), RATE, 1)
    assert quotas.resolve(RATE, "u", "") is None
    quotas.set(QuotaEntity(DEFAULT_NAME), RATE, 9)
    resolved = quotas.resolve(RATE, "u", "")
    assert resolved is not None
    assert (resolved.limit, resolved.tags) == (9, ("u", ""))


def test_a_buckets_limit_is_found_by_its_tags():
    """Only levels that share by these tags can give its limit."""
    quotas = ClientQuotas()
    for rank, names in enumerate(cases("quota.entity")["precedence-eight-levels"]["entities"]):
        quotas.set(entity(*names), RATE, rank + 1)
    tags = [("u", "c"), ("u", "x"), ("u", ""), ("v", "c"), ("v", "x"), ("v", ""), ("", "c")]
    limits = [quotas.limit_of(RATE, each) for each in (*tags, ("", "x"))]
    assert [each and each.limit for each in limits] == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    "case_id", ["quota-parsing-client-id", "quota-parsing-user", "quota-parsing-user-client"]
)
def test_a_changed_limit_judges_the_same_samples(case_id):
    """Raised, it throttles no more; lowered, it throttles at once; the default's bucket stays the same."""
    case = cases("quota.entity")[case_id]
    who = [name or "other" for name in case["entity"]]
    own, default = entity(*case["entity"]), entity(*case["default"])
    quotas = ClientQuotas()
    manager = ClientQuotaManager(quotas, smooth=False)
    got = []
    for step, (bound, value) in enumerate(zip(case["bounds"], case["values"], strict=True)):
        if step < 3:
            changing(quotas, manager, own, bound)
        else:
            changing(quotas, manager, own, None)
            changing(quotas, manager, default, bound)
        got.append(throttled(manager, *who, value))
    assert got == case["throttled"]


@pytest.mark.parametrize("whose", [QuotaEntity("userA"), QuotaEntity("userA", "client1")])
def test_a_quota_that_is_removed_holds_no_longer(whose):
    """A client over its quota is free as soon as the quota is removed."""
    quotas = ClientQuotas()
    manager = ClientQuotaManager(quotas, smooth=False)
    changing(quotas, manager, whose, 10)
    assert throttled(manager, "userA", "client1", 11_000)
    changing(quotas, manager, whose, None)
    assert not throttled(manager, "userA", "client1", 11_000)


def test_kafkas_script_of_precedence_holds_step_by_step():
    """Forty changes and checks at one moment: each level has a bucket of its own, equal tags have the same one."""
    quotas = ClientQuotas()
    manager = ClientQuotaManager(quotas, smooth=False)
    for step in cases("quota.entity")["precedence-full-script"]["steps"]:
        if step[0] == "set":
            changing(quotas, manager, entity(step[1], step[2]), step[3] or None)
            continue
        _, user, client_id, bound, value, expected = step
        resolved = quotas.resolve(BYTES, user, client_id)
        assert resolved is not None
        assert (step, resolved.limit) == (step, bound)
        assert (step, throttled(manager, user, client_id, value * 11)) == (step, expected)


def test_an_override_beats_the_file_until_it_is_removed():
    """Then the file's value holds again; each change is a new revision."""
    quotas = ClientQuotas()
    alice = QuotaEntity("alice")
    quotas.set(alice, RATE, 10)
    quotas.set_override(alice, RATE, 20)
    quotas.set_override(alice, BYTES, 1000)
    assert quotas.get(alice, RATE) == 20
    assert [(each.key, each.value, each.origin) for each in quotas] == [
        (RATE, 20, "override"),
        (BYTES, 1000, "override"),
    ]
    assert quotas.overrides == {alice: {RATE: 20, BYTES: 1000}}
    quotas.set_override(alice, RATE, None)
    quotas.set_override(alice, BYTES, None)
    assert [(each.key, each.value, each.origin) for each in quotas] == [(RATE, 10, "file")]
    assert (quotas.overrides, quotas.origin_of(alice, RATE)) == ({}, "file")
    assert quotas.rev == 5


def test_the_config_file_beats_the_quotas_file_limit_by_limit():
    """A limit that only the quotas file has holds; one that is removed above it holds again."""
    quotas = ClientQuotas()
    alice = QuotaEntity("alice")
    quotas.set(alice, RATE, 10)
    quotas.set(alice, RATE, 30, "quotas_file")
    quotas.set(alice, BYTES, 1000, "quotas_file")
    assert [(each.key, each.value, each.origin) for each in quotas] == [
        (RATE, 10, "file"),
        (BYTES, 1000, "quotas_file"),
    ]
    assert quotas.in_quotas_file == {alice: {RATE: 30, BYTES: 1000}}
    quotas.set(alice, RATE, None)
    assert quotas.get(alice, RATE) == 30
    quotas.set_override(alice, RATE, 20)
    assert (quotas.get(alice, RATE), quotas.origin_of(alice, RATE)) == (20, "override")
    quotas.set_override(alice, RATE, None)
    quotas.set(alice, RATE, None, "quotas_file")
    assert (quotas.get(alice, RATE), quotas.origin_of(alice, RATE)) == (None, None)


def test_the_digest_depends_only_on_the_limits():
    """It is equal for equal limits in any process, changes with each change, and returns with the old limits."""

    def book(*lines: tuple[QuotaEntity, str, float]) -> ClientQuotas:
        made = ClientQuotas()
        for line in lines:
            made.set(*line)
        return made

    alice = (QuotaEntity("alice"), REQUEST_RATE, 10.0)
    report = (QuotaEntity("alice", "report"), REQUEST_RATE, 5.0)
    one, other = book(alice, report), book(report, alice)
    assert one.digest() == other.digest() != book(alice).digest()
    before = one.digest()
    one.set_override(QuotaEntity("alice"), REQUEST_RATE, 11.0)
    changed = one.digest()
    assert changed != before
    one.set_override(QuotaEntity("alice"), REQUEST_RATE, None)
    assert one.digest() == before
    confusing = book((QuotaEntity("a", "b', 'c"), REQUEST_RATE, 1.0))
    assert confusing.digest() != book((QuotaEntity("a', 'b", "c"), REQUEST_RATE, 1.0)).digest()
    assert book((QuotaEntity("\ud800"), REQUEST_RATE, 1.0)).digest()


def test_a_bucket_is_named_by_kafkas_tags():
    """A tag that the level does not distinguish is left out."""
    assert [tags_text(tags) for tags in (("alice", ""), ("", "c"), ("alice", "c"))] == [
        *("user=alice", "client-id=c", "user=alice,client-id=c"),
    ]


def test_the_listing_is_in_order():
    """Limits are sorted by user, client id and key, not by the time they were set."""
    quotas = ClientQuotas()
    for each in (QuotaEntity("b"), QuotaEntity(None, "z"), QuotaEntity("a", "c"), QuotaEntity("a")):
        quotas.set(each, BYTES, 5)
        quotas.set(each, RATE, 5)
    listed = [(each.entity.user, each.entity.client_id, each.key) for each in quotas]
    assert listed == [
        (user, client_id, key)
        for user, client_id in [(None, "z"), ("a", None), ("a", "c"), ("b", None)]
        for key in (RATE, BYTES)
    ]


@pytest.mark.parametrize("value", [0, -1, -0.0, math.nan, math.inf, -math.inf, 1e-9])
@pytest.mark.parametrize("key", KEYS)
def test_values_that_limit_nothing_are_refused(key, value):
    """Kafka refuses values not above 0; Sluice also refuses NaN and infinity."""
    assert check_value(key, value)
    with pytest.raises(ValueError, match=key):
        ClientQuotas().set(QuotaEntity("u"), key, value)


def test_which_values_and_names_a_limit_may_have():
    """As in Kafka: byte rates are whole, names neither empty nor huge, and a limit without a name has no bucket."""
    assert check_value(RATE, 0.5) is None
    assert check_value(BYTES, 10_000) is None
    assert check_value(BYTES, 10_000.5)
    assert check_value("request_percentage", 5)

    assert check_name("alice") is None
    assert check_name("CN=a b,O=ü*") is None
    assert check_name("x" * 1024) is None
    assert check_name("")
    assert check_name("x" * 1025)

    with pytest.raises(ValueError, match="entity"):
        ClientQuotas().set(QuotaEntity(), RATE, 5)


@pytest.mark.parametrize("value", [1.7976931348623157e308, 1e12 + 1])
@pytest.mark.parametrize("key", KEYS)
def test_a_limit_that_no_cluster_can_reach_is_refused(key, value):
    """Products of such values lose precision up to NaN, and NaN lets every request pass."""
    assert "at most 1000000000000" in str(check_value(key, value))
    assert check_value(key, 1e12) is None


def test_a_principal_that_calls_itself_default_is_not_the_default():
    """Kafka distinguishes the two: the default's limit is a template, with a bucket for each client."""
    quotas = ClientQuotas()
    quotas.set(QuotaEntity(DEFAULT_NAME, "app"), REQUEST_RATE, 5.0)
    quotas.set(QuotaEntity(None, DEFAULT_NAME), REQUEST_RATE, 7.0)
    found = quotas.resolve(REQUEST_RATE, DEFAULT_NAME, "app")
    assert found == ResolvedLimit(
        5.0, (DEFAULT_NAME, "app"), QuotaEntity(DEFAULT_NAME, "app"), is_default=True
    )
    assert quotas.resolve(REQUEST_RATE, "alice", DEFAULT_NAME) == ResolvedLimit(
        7.0, ("", DEFAULT_NAME), QuotaEntity(None, DEFAULT_NAME), is_default=True
    )


def test_the_cost_of_a_change_does_not_depend_on_the_number_of_limits(monkeypatch):
    """No step of it iterates over the limits, neither for the levels nor for the digest."""
    hashed = []
    monkeypatch.setattr("policies.quota.entity._hash_of", lambda *args: hashed.append(args) or 1)
    quotas = ClientQuotas()
    for number in range(4000):
        quotas.set(QuotaEntity(f"user-{number}"), REQUEST_RATE, 1.0)
    assert len(hashed) == 4000
    tables = quotas._tables[REQUEST_RATE]
    quotas._tables[REQUEST_RATE] = Unlooped(tables)
    quotas.set_override(QuotaEntity("user-7"), REQUEST_RATE, 2.0)
    quotas.set_override(QuotaEntity("user-7"), REQUEST_RATE, None)
    assert len(hashed) == 4000 + 4
    assert quotas.get(QuotaEntity("user-7"), REQUEST_RATE) == 1.0


class Unlooped(dict):
    """A table that raises when it is iterated over."""

    def __iter__(self):
        raise AssertionError("a change has walked the whole table")


def book_of(*entities: QuotaEntity) -> ClientQuotas:
    quotas = ClientQuotas()
    for place, each in enumerate(entities, 1):
        quotas.set(each, REQUEST_RATE, float(place))
    return quotas


NAMES = st.sampled_from([None, DEFAULT_NAME, "a", "b"])
ENTITIES = st.builds(QuotaEntity, NAMES, NAMES).filter(lambda each: each != QuotaEntity())


@given(st.sets(ENTITIES, min_size=1))
def test_a_limit_is_outranked_exactly_if_no_client_ever_gets_it(entities):
    """Each possible client is tried."""
    quotas = book_of(*entities)
    clients = [(user, client_id) for user in ("a", "b", "c") for client_id in ("a", "b", "c", "")]
    holding = {
        found.entity
        for user, client_id in clients
        if (found := quotas.resolve(REQUEST_RATE, user, client_id)) is not None
    }
    for each in entities:
        winner = quotas.maybe_outranked(each, REQUEST_RATE)
        if winner is not None:
            assert each not in holding
            assert quotas.get(winner, REQUEST_RATE) is not None
        elif each.user is None:
            assert each in holding


@given(st.sets(ENTITIES, min_size=1))
def test_a_ranking_lists_all_limits_that_fit_and_begins_with_the_one_that_holds(entities):
    """When the first is removed, the rest of the ranking remains."""
    quotas = book_of(*entities)
    for user, client_id in (("a", "b"), ("c", "a"), ("c", "")):
        ranking = quotas.ranking(REQUEST_RATE, user, client_id)
        assert quotas.resolve(REQUEST_RATE, user, client_id) == (ranking[0] if ranking else None)
        if ranking:
            less = book_of(*(each for each in entities if each != ranking[0].entity))
            rest = less.ranking(REQUEST_RATE, user, client_id)
            assert [each.entity for each in rest] == [each.entity for each in ranking[1:]]


@given(st.dictionaries(ENTITIES, st.integers(1, 3)), st.dictionaries(ENTITIES, st.integers(1, 3)))
def test_the_overrides_of_another_book_are_taken_over(mine, theirs):
    """All of them replace ours, or lie over ours; limits and digest are those of a book made so."""
    for replace_all in (True, False):
        ours, other, wanted = ClientQuotas(), ClientQuotas(), ClientQuotas()
        for entity, value in mine.items():
            ours.set_override(entity, REQUEST_RATE, value)
        for entity, value in theirs.items():
            other.set_override(entity, REQUEST_RATE, value)
        for entity, value in (theirs if replace_all else {**mine, **theirs}).items():
            wanted.set_override(entity, REQUEST_RATE, value)
        ours.take_overrides(other, replace_all=replace_all)
        assert ours.overrides == wanted.overrides
        assert ours.digest() == wanted.digest()
