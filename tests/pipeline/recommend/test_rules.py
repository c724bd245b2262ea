"""Rules cover every name, grant little more than is needed, and are few."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.recommend.rules import (
    SLACK,
    Measured,
    QuotaRule,
    RecordedNeed,
    Sizing,
    choose,
    named_rules,
)
from policies.quota.entity import DEFAULT_NAME, PRODUCER_BYTE_RATE, REQUEST_RATE, QuotaEntity

SIZING = Sizing(headroom=1.0)
NEEDED = st.lists(st.integers(1, 10_000), min_size=1, max_size=60).map(
    lambda found: sorted(found, reverse=True)
)


def need(
    user: str | None, rate: float, client_id: str | None = None, client_ids: int = 1
) -> RecordedNeed:
    return RecordedNeed(user, client_id, client_ids, rate, rate / 2, rate, rate, 100, 2, 1.5)


def chosen(
    needs: list[RecordedNeed],
    *,
    level: str = "user",
    sizing: Sizing = SIZING,
    key: str = REQUEST_RATE,
    names: int | None = None,
    parts: dict[str, tuple[RecordedNeed, RecordedNeed]] | None = None,
) -> list[QuotaRule]:
    needed = sum(sizing.limit(key, each.value) for each in needs)
    measured = Measured(needs, names or len(needs), needed, parts or {})
    return list(choose(key, measured, sizing, level))


def limits(rules: list[QuotaRule]) -> dict[QuotaEntity, float]:
    return {rule.entity: rule.limit for rule in rules}


def test_busy_names_get_their_own_rule_and_the_default_is_for_the_others() -> None:
    """A single rule would grant each of the quiet ones what the busy one needs. Equal needs have one rule."""
    (rule,) = chosen([need("alice", 100), need("bob", 90), need("carol", 90)])
    assert (rule.entity, rule.limit, rule.covers) == (QuotaEntity(DEFAULT_NAME), 100, 3)
    assert rule.reason == "covers 3 users; alice needs most"
    assert chosen([]) == []
    rules = chosen([need("busy", 1000), need("a", 10), need("b", 9), need("c", 8)])
    assert limits(rules) == {QuotaEntity("busy"): 1000, QuotaEntity(DEFAULT_NAME): 10}


def test_a_million_client_ids_need_few_rules() -> None:
    """Three busy ones and a default; only the largest needs are known by name."""
    busy = [need(None, rate, f"app-{rate}") for rate in (900_000, 800_000, 700_000)]
    quiet = [need(None, 5, f"id-{n}") for n in range(98)]
    sums = Measured([*busy, *quiet], 1_000_000, 2_400_000 + 999_997 * 5, {})
    rules = list(choose(REQUEST_RATE, sums, SIZING, "client_id"))
    assert limits(rules) == {
        QuotaEntity(None, "app-900000"): 900_000,
        QuotaEntity(None, "app-800000"): 800_000,
        QuotaEntity(None, "app-700000"): 700_000,
        QuotaEntity(None, DEFAULT_NAME): 5,
    }
    assert rules[-1].covers == 999_997


def test_a_users_busy_client_id_gets_its_own_rule_if_the_others_need_little() -> None:
    """The user's rule is then for the others together, because the rule of both outranks it."""
    needs = [need("alice", 1000, client_ids=6), need("bob", 10), need("carol", 10)]
    parts = {"alice": (need("alice", 950, "etl"), need("alice", 40, client_ids=5))}
    rules = chosen(needs, parts=parts)
    assert limits(rules) == {
        QuotaEntity("alice", "etl"): 950,
        QuotaEntity("alice"): 40,
        QuotaEntity(DEFAULT_NAME): 10,
    }
    assert [rule.reason for rule in rules[:2]] == ["most of alice", "its 5 other client ids"]
    even = {"alice": (need("alice", 600, "etl"), need("alice", 501, client_ids=5))}
    assert limits(chosen(needs, parts=even)) == {
        QuotaEntity("alice"): 1000,
        QuotaEntity(DEFAULT_NAME): 10,
    }


def test_pairs_have_rules_of_both_names() -> None:
    """One without a client id is named by its user; its default is that of both."""
    needs = [need("a", 1000, "x"), need("", 900, "y"), need("b", 800, ""), need("c", 1, "z")]
    assert limits(chosen(needs, level="both")) == {
        QuotaEntity("a", "x"): 1000,
        QuotaEntity("ANONYMOUS", "y"): 900,
        QuotaEntity("b"): 800,
        QuotaEntity(DEFAULT_NAME, DEFAULT_NAME): 1,
    }


def test_a_limit_has_headroom_a_floor_and_is_whole() -> None:
    """The smallest byte rate lets a batch pass."""
    sizing = Sizing(headroom=1.1, min_rate=2)
    assert sizing.limit(REQUEST_RATE, 100.3) == 111
    assert sizing.limit(REQUEST_RATE, 0.01) == 2
    assert sizing.limit(PRODUCER_BYTE_RATE, 10) == 65536
    (rule,) = chosen([need("a", 100)], sizing=sizing)
    assert (rule.limit, rule.fitted) == (111, 56)


@given(NEEDED, st.integers(0, 20))
def test_the_number_of_rules_is_the_least_that_grants_little_more(
    found: list[int], max_rules: int
) -> None:
    """At most SLACK times the need, unless that takes more rules than are allowed. Every name is covered."""
    values = list(map(float, found))
    own = named_rules(values[: max_rules + 1], len(values), sum(values), max_rules)

    def granted(own: int) -> float:
        return sum(values[:own]) + (len(values) - own) * values[own]

    assert own <= max_rules
    assert own == min(max_rules, len(values) - 1) or granted(own) <= SLACK * sum(values)
    assert all(granted(fewer) > SLACK * sum(values) for fewer in range(own))
    assert all(value <= values[own] for value in values[own:])
