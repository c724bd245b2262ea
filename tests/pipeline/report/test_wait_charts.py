"""The charts of waiting, as specifications."""

from typing import Any

import pytest

from pipeline.report.chart_style import STAGE_COLOURS, WIDE
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
    """Each has its median, p99 and longest on one logarithmic axis; the p99 is written."""
    spec = waits(busy_facts(), WIDE, "throttle", "client").to_dict()

    assert [row["name"] for row in rows(spec)][:2] == ["alice", "bob"]
    p99 = [row["p99"] for row in rows(spec)]
    assert p99 == sorted(p99, reverse=True)
    assert all(row["p50"] <= row["p99"] <= row["max"] for row in rows(spec))
    assert rows(spec)[0]["text"] == "900 ms"
    assert {layer["encoding"]["x"]["scale"]["type"] for layer in spec["layer"]} == {"log"}
    assert spec["layer"][1]["mark"]["color"] == STAGE_COLOURS["throttle"]


def test_a_wait_of_nothing_is_on_the_axis() -> None:
    """A logarithmic axis has no zero; many are capped."""
    many = tuple(Wait("throttle", "api", f"a{n}", 5, 0.0, 0.0, 0.0) for n in range(99))
    facts = replaced(empty_facts(), waits=many)

    spec = waits(facts, WIDE, "throttle", "api").to_dict()

    assert {row["p50"] for row in rows(spec)} == {LEAST_MS}
    assert len(waits_shown(many, "throttle", "api")) == MAX_WAITS
    assert waits_shown(many, "purgatory", "api") == []


def test_the_shares_of_stages_are_the_whole() -> None:
    """The API with most time comes first; an API without any time is left out."""
    stages = [
        StageTime("Produce", "upstream", 30), StageTime("Produce", "throttle", 10),
        StageTime("Fetch", "upstream", 90), StageTime("Idle", "upstream", 0),
    ]  # fmt: skip
    shares = stage_shares(stages)

    assert list(shares) == ["Fetch", "Produce"]
    assert shares["Produce"]["throttle"] == 0.25
    assert all(sum(own.values()) == pytest.approx(1) for own in shares.values())


def test_apis_that_took_no_time_have_no_bar() -> None:
    """One has at least, and there are not too many."""
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
    colours = spec["layer"][0]["encoding"]["color"]["scale"]
    assert dict(zip(colours["domain"], colours["range"], strict=True)) == STAGE_COLOURS
    names = list(dict.fromkeys(row["api"] for row in rows(spec)))
    assert names == ["Fetch, 54 %", "Produce, 44 %", "Metadata, 1.2 %"]  # Heartbeat took too little


def test_pools_have_a_line_each_and_marks_of_emptiness() -> None:
    """The axis starts at zero and ends above the largest use."""
    facts = busy_facts()
    spec = pools(facts, WIDE).to_dict()
    lines, empty = spec["layer"]

    low, high = lines["encoding"]["y"]["scale"]["domain"]
    assert low == 0
    assert max(each.used_share for each in facts.pools) < high <= 1
    assert empty["transform"] == [{"filter": "datum.depleted_ms > 0"}]
    assert lines["encoding"]["color"]["scale"]["domain"] == ["requests", "replies"]
