"""Goals: a measured figure against its bound, and the goals of `make bench`.

`must` decides whether a goal is met; `aim` is only shown. A goal without a measurement is "not measured", never met.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from bench.figures import Footprint, Samples
from bench.harness.figures import Spread, maybe_spread, spread
from bench.harness.markdown import table
from bench.in_process import Cost
from bench.path import THROTTLED, UNTHROTTLED
from bench.variants import DIRECT, HAPROXY, RELAY, SLUICE, SLUICE_QUOTA

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


def goals(
    samples: Samples, footprints: dict[str, Footprint], path: Sequence[Cost] = ()
) -> list[Goal]:
    """Return every goal of `make bench` with its measurement."""
    return [
        *_efficiency(samples),
        *_latency(samples),
        *_policies(samples, path),
        *_footprint(footprints.get(SLUICE), footprints.get(SLUICE_QUOTA)),
    ]


def _efficiency(samples: Samples) -> list[Goal]:
    lines = (
        (HAPROXY, "small-10", "100 B, 10 connections", 0.65, 0.75),
        (HAPROXY, "small-100", "100 B, 100 connections", 0.55, 0.75),
        (HAPROXY, "deep-10", "10 x 10 in flight", 0.38, None),
        (HAPROXY, "fetch-10", "fetch 1 MiB, 10 connections", 1.0, None),
        (HAPROXY, "produce-10", "produce 1 MiB, 10 connections", 1.0, None),
        (RELAY, "small-10", "100 B, 10 connections", 0.55, 0.70),
        (RELAY, "small-100", "100 B, 100 connections", 0.55, 0.70),
        (RELAY, "small-1000", "100 B, 1,000 connections", 0.55, 0.70),
        (RELAY, "deep-16", "10 x 16 in flight", 0.33, 0.42),
        (RELAY, "kb-16", "16 KiB, 10 connections", 0.55, 0.70),
        (RELAY, "fetch-10", "fetch 1 MiB, 10 connections", 0.70, 0.85),
        (RELAY, "produce-10", "produce 1 MiB, 10 connections", 0.70, 0.85),
    )
    names = {HAPROXY: "HAProxy", RELAY: "the C relay"}
    return [
        Goal(
            f"CPU efficiency against {names[yardstick]}, {title}",
            "",
            samples.efficiency(shape, SLUICE, yardstick),
            must,
            at_least=True,
            aim=aim,
        )
        for yardstick, shape, title, must, aim in lines
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


def _policies(samples: Samples, path: Sequence[Cost]) -> list[Goal]:
    added = samples.between(
        "deep-10", SLUICE_QUOTA, SLUICE, lambda ours, plain: ours.cpu_us - plain.cpu_us
    )
    costs = {each.name: each.added for each in path}
    return [
        max_goal("a quota without throttling, 10 x 10 in flight", "µs", added, 1.0),
        max_goal("a quota without throttling, in one process", "µs", costs.get(UNTHROTTLED), 1.0),
        max_goal("throttle and unmute, in one process", "µs", costs.get(THROTTLED), 3.0),
    ]


def added_ratio(samples: Samples, shape: str, yardstick: str) -> Spread | None:
    """Return the median latency that Sluice adds, divided by what the yardstick adds; None if not measured.

    It is a quotient of medians, because inside one round the divisor is a small difference of any size.
    """
    ours = samples.added_p50_us(shape, SLUICE, DIRECT)
    theirs = samples.added_p50_us(shape, yardstick, DIRECT)
    if ours is None or theirs is None or theirs.median <= 0:
        return None
    return spread([ours.median / theirs.median])


def _footprint(ours: Footprint | None, with_quota: Footprint | None) -> list[Goal]:
    pair = ours.bytes_per_pair if ours and max(ours.resident_bytes) else None
    resident = ours.resident_bytes[0] / MB if ours else None
    quota = with_quota.resident_bytes[0] / MB if with_quota else None
    start = maybe_spread(ours.accept_seconds) if ours else None
    idle = ours.idle_cpu_percent if ours else None
    return [
        replace(max_goal("memory of an idle pair", "bytes", pair, 3500, 0), aim=2560),
        replace(max_goal("resident memory at start", "MB", resident, 42, 1), aim=40),
        max_goal("resident memory at start, with a quota", "MB", quota, 45, 1),
        max_goal("start to accepting", "s", start, 0.35),
        max_goal("CPU with 100 idle connections", "%", idle, 0.1, 3),
    ]
