"""Goals are met, missed, or not measured."""

import pytest

from bench.figures import Footprint, Sample, Samples
from bench.goals import Goal, added_ratio, goals
from bench.harness.figures import Spread


def sample(variant: str, cpu_us: float, p50_us: float, shape: str = "small-10") -> Sample:
    """A run in the only round."""
    return Sample(shape, variant, 0, 1, 1.0, 1, cpu_us, p50_us, p50_us)


def test_the_bound_itself_meets_a_goal() -> None:
    """The median decides, and equality is enough; what was not measured is not met."""
    for value, at_least, met in (
        *((0.6, True, True), (0.59, True, False)),
        *((0.6, False, True), (0.61, False, False)),
    ):
        assert Goal("x", "", Spread(value, 0.0, 9.0), 0.6, at_least=at_least).met is met
    assert {goal.met for goal in goals(Samples(), {})} == {None}


def test_efficiency_goals_read_sluice_against_its_yardsticks() -> None:
    """Each build has goals of its own; a row without its yardstick is not measured."""
    runs = {"sluice": 12.5, "sluice-compiled": 20.0, "sluice-compiled+quota": 11.0, "haproxy": 10.0}
    samples = Samples([sample(name, cpu_us, 1.0) for name, cpu_us in runs.items()])
    found = {goal.what: (goal.figure, goal.met) for goal in goals(samples, {}) if goal.measured}
    assert found == {
        "sluice-compiled against HAProxy, 100 B, 10 connections": ("0.50", False),
        "sluice-compiled+quota against HAProxy, 100 B, 10 connections": ("0.91", True),
        "sluice against HAProxy, 100 B, 10 connections": ("0.80", True),
    }


def test_added_ratio_divides_what_each_adds() -> None:
    """150 against 200 us with direct at 100 is half."""
    samples = Samples(
        [
            sample("direct", 0.0, 100.0),
            sample("sluice-compiled", 1.0, 150.0),
            sample("relay", 1.0, 200.0),
            sample("haproxy", 1.0, 90.0),
        ]
    )
    ratio = added_ratio(samples, "small-10", "relay")
    assert ratio is not None
    assert ratio.median == pytest.approx(0.5)
    assert added_ratio(samples, "small-10", "haproxy") is None, "a yardstick that adds nothing"


def test_footprint_goals() -> None:
    """Memory, start and idle CPU are judged from the footprint."""
    ours = Footprint("sluice", (0.2, 0.3, 0.9), (1.0,), {0: 60_000_000, 5000: 70_000_000}, 0.01)
    quota = Footprint("sluice+quota", (), (), {0: 45_000_000}, 0.0)
    footprints = {"sluice": ours, "sluice+quota": quota}
    met = {goal.what: goal.met for goal in goals(Samples(), footprints)}
    assert met["sluice, memory of an idle pair"] is True
    assert met["sluice, resident memory at start"] is False
    assert met["sluice, resident memory at start, with a quota"] is True
    assert met["sluice, start to accepting"] is True
    assert met["sluice, CPU with 100 idle connections"] is True
    assert met["sluice-compiled, start to accepting"] is None
