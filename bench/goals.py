"""Goals: a measured figure against its bound, and the goals of `make bench`.

`must` decides whether a goal is met; `aim` is only shown. A goal without a measurement is "not measured", never met.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from bench.figures import Footprint, Samples
from bench.harness.figures import Spread, maybe_spread, spread
from bench.harness.markdown import table
from bench.shapes import SHAPES
from bench.variants import (
    COMPILED,
    COMPILED_QUOTA,
    DIRECT,
    HAPROXY,
    KROXYLICIOUS,
    RELAY,
    SLUICE,
    SLUICE_QUOTA,
)

MB: Final = 1e6
_WORDS: Final = {True: "met", False: "NOT MET", None: "not measured"}


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of a table of goals. `measured` is None if it was not measured."""

    what: str
    unit: str
    measured: Spread | None
    must: float
    at_least: bool
    aim: float | None = None
    digits: int = 2

    @property
    def met(self) -> bool | None:
        """Return whether the median meets `must`; None if it was not measured."""
        if self.measured is None:
            return None
        value = self.measured.median
        return value >= self.must if self.at_least else value <= self.must

    @property
    def figure(self) -> str:
        """Return what was measured; empty if it was not."""
        return "" if self.measured is None else self.measured.text(self.digits)


Measured = Spread | float | None


def max_goal(what: str, unit: str, measured: Measured, must: float, digits: int = 2) -> Goal:
    """Return a goal with an upper bound."""
    return Goal(what, unit, _spread(measured), must, at_least=False, digits=digits)


def min_goal(what: str, unit: str, measured: Measured, must: float, digits: int = 2) -> Goal:
    """Return a goal with a lower bound."""
    return replace(max_goal(what, unit, measured, must, digits), at_least=True)


def _spread(measured: Measured) -> Spread | None:
    return spread([measured]) if isinstance(measured, int | float) else measured


def goal_table(lines: Sequence[Goal]) -> str:
    """Return the goals as a Markdown table: met, NOT MET or not measured."""
    rows = []
    for goal in lines:
        sign = "≥" if goal.at_least else "≤"
        word = _WORDS[goal.met]
        rows.append(
            [
                goal.what,
                f"{sign} {goal.must:g} {goal.unit}".strip(),
                "" if goal.aim is None else f"{sign} {goal.aim:g}",
                goal.figure,
                f"**{word}**" if goal.met is False else word,
            ]
        )
    return table(["goal", "must", "aim", "measured", ""], rows)


def tell(lines: Sequence[Goal]) -> None:
    """Print the goals on the terminal."""
    for goal in lines:
        print(
            f"{_WORDS[goal.met]:12} {goal.what}: {goal.figure} {goal.unit}, must {goal.must:g}",
            flush=True,
        )


def goals(samples: Samples, footprints: dict[str, Footprint]) -> list[Goal]:
    """Return every goal of `make bench` with its measurement."""
    return [
        *_efficiency(samples),
        *_latency(samples),
        *_footprint(COMPILED, 3500, footprints.get(COMPILED), footprints.get(COMPILED_QUOTA)),
        *_footprint(SLUICE, 3700, footprints.get(SLUICE), footprints.get(SLUICE_QUOTA)),
    ]


SMALL: Final = ("small-10", "small-100", "small-1000")
DEEP: Final = ("deep-10", "deep-16")
BULK: Final = ("fetch-10", "produce-10")
EFFICIENCY: Final = (
    (COMPILED, HAPROXY, SMALL, 0.90, 1.0),
    (COMPILED, HAPROXY, ("deep-10",), 0.80, 0.95),
    (COMPILED, HAPROXY, ("deep-16",), 0.75, 0.95),
    (COMPILED, HAPROXY, BULK, 1.3, 1.6),
    (COMPILED_QUOTA, HAPROXY, SMALL, 0.85, 0.95),
    (COMPILED_QUOTA, HAPROXY, DEEP, 0.70, 0.95),
    (SLUICE, HAPROXY, ("small-10",), 0.70, None),
    (SLUICE, HAPROXY, ("small-100",), 0.62, None),
    (SLUICE, HAPROXY, ("deep-10",), 0.50, None),
    (SLUICE, HAPROXY, BULK, 1.0, None),
    (COMPILED, RELAY, (*SMALL, "kb-16"), 0.55, 0.70),
    (COMPILED, RELAY, ("deep-16",), 0.33, 0.42),
    (COMPILED, RELAY, BULK, 0.70, 0.85),
)
"""Variant, yardstick, shapes, the efficiency that must be reached, and the one that is aimed at."""
_NAMES: Final = {HAPROXY: "HAProxy", RELAY: "the C relay"}
KAFKA_SHAPES: Final = (*SMALL, *DEEP, "kb-16", *BULK)
"""The shapes of the goals against each Kroxylicious."""


def _efficiency(samples: Samples) -> list[Goal]:
    titles = {shape.name: shape.title for shape in SHAPES}
    names = dict.fromkeys(each.variant for each in samples.all())
    others = [name for name in names if name.startswith(KROXYLICIOUS)] or [KROXYLICIOUS]
    wanted = [*EFFICIENCY, *((COMPILED, other, KAFKA_SHAPES, 1.2, 1.8) for other in others)]
    return [
        Goal(
            f"{variant} against {_NAMES.get(yardstick, yardstick)}, {titles[shape]}",
            "",
            samples.efficiency(shape, variant, yardstick),
            must,
            at_least=True,
            aim=aim,
        )
        for variant, yardstick, shapes, must, aim in wanted
        for shape in shapes
    ]


def _latency(samples: Samples) -> list[Goal]:
    lines = (
        ("rate-1000", "1,000", HAPROXY, "HAProxy's", 1.5, None),
        ("rate-1000", "1,000", RELAY, "the C relay's", 2.2, 1.7),
        ("rate-4000", "4,000", RELAY, "the C relay's", 2.2, 1.7),
    )
    return [
        Goal(
            f"p50 added at {rate} requests/s, times {whose}",
            "x",
            added_ratio(samples, shape, yardstick),
            must,
            at_least=False,
            aim=aim,
        )
        for shape, rate, yardstick, whose, must, aim in lines
    ]


def added_ratio(samples: Samples, shape: str, yardstick: str) -> Spread | None:
    """Return the median latency that the compiled build adds, divided by what the yardstick adds; None if not measured.

    It is a quotient of medians, because inside one round the divisor is a small difference of any size.
    """
    ours = samples.added_p50_us(shape, COMPILED, DIRECT)
    theirs = samples.added_p50_us(shape, yardstick, DIRECT)
    if ours is None or theirs is None or theirs.median <= 0:
        return None
    return spread([ours.median / theirs.median])


def _footprint(
    name: str, max_pair: int, ours: Footprint | None, with_quota: Footprint | None
) -> list[Goal]:
    pair = ours.bytes_per_pair if ours and max(ours.resident_bytes) else None
    resident = ours.resident_bytes[0] / MB if ours else None
    quota = with_quota.resident_bytes[0] / MB if with_quota else None
    start = maybe_spread(ours.accept_seconds) if ours else None
    idle = ours.idle_cpu_percent if ours else None
    return [
        replace(max_goal(f"{name}, memory of an idle pair", "bytes", pair, max_pair, 0), aim=2560),
        replace(max_goal(f"{name}, resident memory at start", "MB", resident, 51, 1), aim=48),
        # kio imports hypothesis where that is installed, as here: 15 MB.
        max_goal(f"{name}, resident memory at start, with a quota", "MB", quota, 70, 1),
        max_goal(f"{name}, start to accepting", "s", start, 0.35),
        max_goal(f"{name}, CPU with 100 idle connections", "%", idle, 0.1, 3),
    ]
