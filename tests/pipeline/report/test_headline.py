"""The findings of a report: the words follow from the figures, and from nothing else."""

import pytest

from pipeline.report.facts import (
    ClientName,
    ClientUse,
    DataQuality,
    EntityNeed,
    PoolUse,
    SweepCell,
    Wait,
)
from pipeline.report.headline import (
    CurvePoint,
    caution,
    curve_of,
    findings,
    headline,
    maybe_knee,
    most_throttled,
)
from tests.support.pipeline.report_facts import ALICE, busy_facts, empty_facts, replaced

BOB = ClientName("bob", "batch")


def use(client: ClientName = ALICE, throttled: int = 380, rate: float | None = 80.0) -> ClientUse:
    """Return 1000 requests, each throttled one by 210 ms."""
    return ClientUse(client, 1000, 1000, throttled, throttled * 210, 900, "user=alice", rate)


def needed(client: ClientName, need: float, recommended: float) -> EntityNeed:
    return EntityNeed(f"user={client.user}", (client.user, None), 10, need, 80, recommended)


def test_the_client_with_most_throttled_requests_comes_first() -> None:
    """The sentence has its share, its mean delay, and the recommended quota if that is larger and enough."""
    facts = replaced(
        empty_facts(),
        clients=(use(BOB, 20), use()),
        needs=(needed(BOB, 300, 330), needed(ALICE, 109, 120)),
    )

    assert headline(facts) == (
        "38 % of the requests of alice / report were throttled, by 210 ms on average."
        " 120 requests/s instead of 80 would have ended that."
    )
    assert findings(facts)[0].startswith("2.0 % of the requests of bob / batch were throttled")
    for needs in ((), (needed(ALICE, 70, 77),), (needed(ALICE, 121, 120),)):
        assert headline(replaced(facts, needs=needs)).endswith("by 210 ms on average.")


@pytest.mark.parametrize(
    ("throttled", "rate", "words"),
    [
        (0, None, "No client has a quota. alice / report sends most: 100 % of all requests."),
        (0, 80.0, "No request was throttled."),
        (5, 80.0, "0.5 % of the requests were throttled."),
    ],
)
def test_without_throttled_clients_the_headline_says_so(
    throttled: int, rate: float | None, words: str
) -> None:
    """A few delayed requests are no client's trouble, but they are told."""
    scope = empty_facts().scope._replace(requests=1000, charged=1000, throttled=throttled)

    facts = replaced(empty_facts(), scope=scope, clients=(use(ALICE, throttled, rate),))

    assert headline(facts) == words


def test_many_throttled_clients_are_counted() -> None:
    """Three have a sentence each, the others are a number."""
    many = tuple(use(ClientName(f"u{n}", "c"), 900 - n) for n in range(6))
    facts = replaced(empty_facts(), clients=many)

    assert [each.client.user for each in most_throttled(facts.clients)] == [
        f"u{n}" for n in range(6)
    ]
    assert "3 more clients were throttled." in findings(facts)


def test_the_curve_is_the_sum_of_all_clients() -> None:
    """Shares are of requests, so a client with many weighs more."""
    cells = [
        SweepCell(ALICE, 1.0, 100, 90, 45),
        SweepCell(BOB, 1.0, 300, 300, 0),
        SweepCell(ALICE, 0.5, 100, 50, 50),
    ]

    assert curve_of(cells) == [CurvePoint(0.5, 1.0, 0.5), CurvePoint(1.0, 45 / 390, 390 / 400)]
    assert curve_of([]) == []


def test_the_knee_is_at_the_sharpest_bend_of_the_curve() -> None:
    """On a curve that falls steeply and then hardly; a straight or a flat one has none."""
    bent = [CurvePoint(2.0 ** (n / 2), max(0.02, 0.5 - n * 0.12), 1.0) for n in range(-2, 9)]
    straight = [CurvePoint(2.0**n, 0.5 - n * 0.1, 1.0) for n in range(5)]
    flat = [CurvePoint(n, 0.001, 1.0) for n in range(1, 6)]

    knee = maybe_knee(bent)
    assert knee is not None
    assert knee.factor == 4
    assert maybe_knee(straight) is None
    assert maybe_knee(flat) is None
    assert maybe_knee(bent[:2]) is None


def test_quotas_that_are_close_or_useless_are_told() -> None:
    """Close: from 80 % of the quota on. Useless: three times the need. Missing ones are counted."""
    facts = replaced(
        empty_facts(),
        clients=(use(ALICE, 0),),
        needs=(
            EntityNeed("user=alice", ("alice", None), 10, 95, 100, 105),
            EntityNeed("user=bob", ("bob", None), 1, 10, 200, 11),
            EntityNeed("user=carol", ("carol", None), 1, 10, None, 11),
        ),
    )

    assert findings(facts) == [
        "user=alice is close to its quota: it needs 95 of 100 requests/s.",
        "The quota of user=bob is more than three times the need: it limits nothing.",
        "user=carol has no quota.",
    ]


def test_waits_and_empty_pools_are_told() -> None:
    """Purgatory by API, and how long clients waited for memory."""
    facts = replaced(
        empty_facts(),
        clients=(use(ALICE, 0),),
        waits=(Wait("purgatory", "api", "Produce", 12, 4, 90, 120),),
        pools=(PoolUse(0, "requests", 1.0, 340),),
    )

    assert findings(facts) == [
        "Produce requests in the purgatory waited up to 90 ms (p99 of 12).",
        "Memory pools were empty for 340 ms: clients waited for memory.",
    ]


def test_losses_are_told_before_the_charts() -> None:
    """Each kind with its number; duplicates change nothing and are no reason for caution."""
    assert caution(busy_facts()) == (
        "118 rows are missing, 15 rows were set aside, 40 spans were dropped:"
        " the true figures may be higher."
    )
    assert caution(replaced(busy_facts(), quality=DataQuality({"entity": 5}, duplicates=9))) == ""
