"""The charts of traffic, as specifications: what is drawn, in which order, from which figures."""

from collections import Counter
from typing import Any

import pytest

from pipeline.report.chart_style import NARROW, SIZES, WIDE
from pipeline.report.facts import OTHER, ClientName, ClientUse, ThrottledBin, TrafficBin
from pipeline.report.traffic_charts import (
    MAX_THROTTLED,
    colours_of,
    shade_runs,
    throttled,
    throttled_when,
    traffic,
    users_by_use,
)
from tests.support.pipeline.report_facts import ALICE, busy_facts, empty_facts, replaced


def rows(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the data of a specification."""
    data = spec.get("data") or spec["layer"][0]["data"]
    return list(spec["datasets"][data["name"]] if "name" in data else data["values"])


def test_traffic_is_stacked_by_use() -> None:
    """The user with most is at the bottom, the rest on top in one colour; every bin is there, the last to its end."""
    facts = busy_facts()
    spec = traffic(facts, WIDE).to_dict()
    colours = colours_of(["a", "b", "c", "d", "e", OTHER])

    assert users_by_use(facts) == ["bob", "carol", "alice", "dave", OTHER]
    assert len({colours[name] for name in "abcd"}) == 4
    assert colours["e"] == colours[OTHER]
    assert Counter(row["order"] for row in rows(spec)) == dict.fromkeys(range(5), 145)
    assert max(row["at"] for row in rows(spec)) == facts.scope.end_ms


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_throttled_clients_are_sorted_by_delayed_requests(size: Any) -> None:
    """Each has its share, which is written beside its bar, and a name that fits."""
    spec = throttled(busy_facts(), size).to_dict()

    assert [(row["text"], round(row["share"], 3)) for row in rows(spec)] == [
        ("38 %", 0.38), ("12 %", 0.12), ("2.1 %", 0.021), ("55 %", 0.55), ("7.0 %", 0.07),
    ]  # fmt: skip
    names = [row["client"] for row in rows(spec)]
    assert names[0] == "alice / report"
    assert all(len(name) <= size.name_columns for name in names)


def test_thousands_of_throttled_clients_are_capped() -> None:
    """The chart has a bounded height."""
    many = tuple(ClientUse(ClientName(f"u{n}", ""), 10, 10, 9, 9, 9) for n in range(5000))
    spec = throttled(replaced(empty_facts(), clients=many), NARROW).to_dict()

    assert len(rows(spec)) == MAX_THROTTLED
    assert spec["height"] < 400


def test_runs_of_one_shade_are_joined() -> None:
    """A run ends at a gap, at another shade and at another client; a time without delays is drawn as none."""
    other = ClientName("bob", "")
    shares = [0.02, 0.04, 0.3, 0.0, 0.3]
    bins = [ThrottledBin(n * 10, ALICE, share) for n, share in enumerate(shares)]
    bins += [ThrottledBin(0, other, 0.3)]

    runs = [(run.client, run.at_ms, end_ms) for run, end_ms in shade_runs(bins)]

    assert runs == [(ALICE, 0, 20), (ALICE, 20, 30), (ALICE, 40, 50), (other, 0, 10)]
    assert list(shade_runs([])) == []
    drawn = rows(throttled_when(busy_facts(), WIDE).to_dict())
    assert all(row["share"] > 0 and row["end"] > row["at"] for row in drawn)
    assert 0 < len(drawn) < 5 * 144


def test_one_bin_is_drawn() -> None:
    """Traffic of a single second has a width."""
    facts = replaced(empty_facts(), traffic=(TrafficBin(empty_facts().scope.start_ms, "a", 5.0),))

    at = [row["at"] for row in rows(traffic(facts, WIDE).to_dict())]
    assert at == [facts.scope.start_ms, facts.scope.end_ms]
