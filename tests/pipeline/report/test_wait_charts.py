"""The charts of waiting, as specifications."""

from typing import Any

import pytest

from pipeline.report.chart_style import WIDE
from pipeline.report.facts import StageTime, Wait
from pipeline.report.wait_charts import (
    LEAST_MS,
    MAX_APIS,
    MAX_WAITS,
    apis_shown,
    pools,
    stage_shares,
    waits,
    waits_shown,
    where_time_went,
)
from tests.support.pipeline.report_facts import busy_facts, empty_facts, replaced


def rows(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the data of the first layer."""
    data = spec.get("data") or spec["layer"][0]["data"]
    return list(spec["datasets"][data["name"]] if "name" in data else data["values"])


def test_waits_are_sorted_by_p99() -> None:
    """Each has its median, p99 and longest; the p99 is written."""
    spec = waits(busy_facts(), WIDE, "throttle", "client").to_dict()

    assert [row["name"] for row in rows(spec)][:2] == ["alice", "bob"]
    p99 = [row["p99"] for row in rows(spec)]
    assert p99 == sorted(p99, reverse=True)
    assert all(row["p50"] <= row["p99"] <= row["max"] for row in rows(spec))
    assert rows(spec)[0]["text"] == "900 ms"


def test_a_wait_of_nothing_is_on_the_axis() -> None:
    """A logarithmic axis has no zero; many are capped."""
    many = tuple(Wait("throttle", "api", f"a{n}", 5, 0.0, 0.0, 0.0) for n in range(99))
    facts = replaced(empty_facts(), waits=many)

    spec = waits(facts, WIDE, "throttle", "api").to_dict()

    assert {row["p50"] for row in rows(spec)} == {LEAST_MS}
    assert len(waits_shown(many, "throttle", "api")) == MAX_WAITS
    assert waits_shown(many, "purgatory", "api") == []


def test_the_shares_of_stages_are_the_whole() -> None:
    """The API with most time comes first; an API without any time is left out, and so are too many."""
    stages = [
        StageTime("Produce", "upstream", 30), StageTime("Produce", "throttle", 10),
        StageTime("Fetch", "upstream", 90), StageTime("Idle", "upstream", 0),
    ]  # fmt: skip
    shares = stage_shares(stages)

    assert list(shares) == ["Fetch", "Produce"]
    assert shares["Produce"]["throttle"] == 0.25
    assert all(sum(own.values()) == pytest.approx(1) for own in shares.values())
    many = [StageTime(f"a{n:02}", "upstream", 100) for n in range(30)]
    assert list(apis_shown(many)) == [f"a{n:02}" for n in range(MAX_APIS)]
    assert apis_shown([StageTime("Fetch", "upstream", 0)]) == {"Fetch": 0.0}
    assert apis_shown([]) == {}


def test_bars_of_stages_follow_one_another() -> None:
    """Each bar starts where the one before ends, up to the whole; small parts have no figure."""
    spec = where_time_went(busy_facts(), WIDE).to_dict()
    produce = [row for row in rows(spec) if row["api"] == "Produce, 44 %"]

    assert [row["begin"] for row in produce[1:]] == [row["end"] for row in produce[:-1]]
    assert produce[-1]["end"] == pytest.approx(1)
    assert [row["text"] for row in produce] == ["64 %", "33 %", "", "", ""]
    names = list(dict.fromkeys(row["api"] for row in rows(spec)))
    assert names == ["Fetch, 54 %", "Produce, 44 %", "Metadata, 1.2 %"]  # Heartbeat took too little


def test_the_axis_of_pools_ends_above_the_largest_use() -> None:
    """It starts at zero."""
    facts = busy_facts()
    low, high = pools(facts, WIDE).to_dict()["layer"][0]["encoding"]["y"]["scale"]["domain"]

    assert low == 0
    assert max(each.used_share for each in facts.pools) < high <= 1
