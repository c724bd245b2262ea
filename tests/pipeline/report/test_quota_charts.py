"""The charts of quotas, as specifications."""

from typing import Any

from pipeline.report.chart_style import NARROW, WIDE
from pipeline.report.facts import EntityNeed, SweepCell
from pipeline.report.quota_charts import (
    LEAST_RATE,
    MAX_NEEDS,
    curve,
    factors_shown,
    heat,
    heat_clients,
    needs,
    needs_shown,
)
from tests.support.pipeline.report_facts import ALICE, busy_facts, empty_facts, replaced


def rows(spec: dict[str, Any], layer: int = 0) -> list[dict[str, Any]]:
    """Return the data of a layer."""
    data = spec.get("data") or spec["layer"][layer]["data"]
    return list(spec["datasets"][data["name"]] if "name" in data else data["values"])


def test_needs_above_their_quota_come_first() -> None:
    """Then by need; each entity has one row, and its marks are on the axis."""
    facts = busy_facts()
    spec = needs(facts, WIDE).to_dict()
    names = [row["name"] for row in rows(spec)]

    assert names[0] == "user=alice"
    assert [row["tight"] for row in rows(spec)] == [True] * 4 + [False] * 3
    by_need = [row["need"] for row in rows(spec)[4:]]
    assert by_need == sorted(by_need, reverse=True)
    low, high = spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    shown = [row[key] for row in rows(spec) for key in ("mean", "need", "quota") if row[key]]
    assert low < min(shown)
    assert max(shown) < high
    assert all(layer["encoding"]["y"]["sort"] == names for layer in spec["layer"])


def test_an_entity_without_a_quota_is_drawn_and_many_are_capped() -> None:
    """Nothing is drawn for what is unknown; a need of nothing is on the axis; the chart has a bounded height."""
    facts = replaced(
        empty_facts(), needs=(EntityNeed("client_id=a", (None, "a"), 0.0, 5.0, None, None),)
    )
    assert rows(needs(facts, WIDE).to_dict()) == [
        {"name": "client_id=a", "mean": LEAST_RATE, "need": 5.0, "quota": None, "recommended": None, "tight": False}
    ]  # fmt: skip
    many = tuple(
        EntityNeed(f"user=u{n}", (f"u{n}", None), 1.0, 2.0 + n, 1.0, 9.0) for n in range(900)
    )

    assert len(needs_shown(replaced(empty_facts(), needs=many))) == MAX_NEEDS
    assert needs_shown(replaced(empty_facts(), needs=many))[0].name == "user=u899"


def test_the_curve_has_its_knee_and_the_present_quotas() -> None:
    """The line starts at the smallest factor; the knee has words."""
    facts = busy_facts()
    spec = curve(facts, WIDE).to_dict()

    assert [row["factor"] for row in rows(spec)] == sorted({cell.factor for cell in facts.sweep})
    assert rows(spec, 2) == [{"factor": 1}]
    assert rows(spec, 3)[0]["factor"] == 1.25
    assert spec["layer"][4]["mark"]["text"].startswith("knee: \u00d7 1.25, 2.")


def test_a_flat_curve_has_no_knee() -> None:
    """A sweep in which nothing was throttled is drawn as a line at zero."""
    cells = tuple(SweepCell(ALICE, factor, 10, 10, 0) for factor in (0.5, 1.0, 2.0))
    spec = curve(replaced(empty_facts(), sweep=cells), WIDE).to_dict()

    assert len(spec["layer"]) == 3
    assert {row["throttled_share"] for row in rows(spec)} == {0.0}


def test_the_heat_map_has_a_figure_in_each_cell() -> None:
    """Clients with most delays come first, and a small share is not nothing."""
    facts = busy_facts()
    spec = heat(facts, WIDE).to_dict()

    assert spec["layer"][0]["encoding"]["x"]["sort"] == [
        f"{each:g}" if len(f"{each:g}") < 5 else f"{each:.2f}".rstrip("0")
        for each in sorted({cell.factor for cell in facts.sweep})
    ]
    assert heat_clients(facts.sweep)[:2] == [ALICE, ("bob", "batch")]
    of_alice = {
        row["factor"]: row["text"] for row in rows(spec) if row["client"].startswith("alice")
    }
    assert of_alice["1"] == "38"
    assert {row["text"] for row in rows(spec) if 0 < row["share"] < 0.01} == {"<1"}


def test_a_narrow_heat_map_has_fewer_factors() -> None:
    """Both ends stay, and so does the factor 1, which is the present."""
    every = {n / 8 for n in range(4, 17)}

    assert factors_shown(every, 6) == [0.5, 0.75, 1.0, 1.375, 1.75, 2.0]
    assert factors_shown({0.5, 1.0}, 6) == [0.5, 1.0]
    shown = {row["factor"] for row in rows(heat(busy_facts(), NARROW).to_dict())}
    assert len(shown) == 6
