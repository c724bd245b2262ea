"""The goals, and whether a set of results meets them.

Rules: each goal names its number, which way is better, and where it comes from; what was not
measured is said to be so, never counted as met. `must` fails the goal, `aim` is only shown beside
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.figures import Footprint, Samples, Spread, spread
from bench.path import THROTTLED, UNTHROTTLED
from bench.variants import DIRECT, HAPROXY, RELAY, SLUICE, SLUICE_QUOTA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.path import Cost

MB = 1e6


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the goals' table. `measured` is None when it was not measured."""

    what: str
    unit: str
    measured: Spread | None
    must: float
    at_least: bool
    aim: float | None = None
    digits: int = 2

    @property
    def met(self) -> bool | None:
        """Whether the median meets `must`; None when not measured."""
        if self.measured is None:
            return None
        value = self.measured.median
        return value >= self.must if self.at_least else value <= self.must


def goals(
    samples: Samples, footprints: dict[str, Footprint], path: Sequence[Cost] = ()
) -> list[Goal]:
    """Every goal, with what was measured for it."""
    return [
        *_against_haproxy(samples),
        *_against_relay(samples),
        *_latency(samples),
        *_policies(samples, path),
        *_footprint(footprints.get(SLUICE)),
    ]


def _against_haproxy(samples: Samples) -> list[Goal]:
    lines = [
        ("small-10", "100 B, 10 connections", 0.65, 0.75),
        ("small-100", "100 B, 100 connections", 0.55, 0.75),
        ("deep-10", "10 x 10 in flight", 0.38, None),
        ("fetch-10", "fetch 1 MiB, 10 connections", 1.0, None),
        ("produce-10", "produce 1 MiB, 10 connections", 1.0, None),
    ]
    return [
        Goal(
            f"CPU efficiency against HAProxy, {title}",
            "",
            samples.efficiency(shape, SLUICE, HAPROXY),
            must,
            at_least=True,
            aim=aim,
        )
        for shape, title, must, aim in lines
    ]


def _against_relay(samples: Samples) -> list[Goal]:
    lines = [
        ("small-10", "100 B, 10 connections", 0.55, 0.70),
        ("small-100", "100 B, 100 connections", 0.55, 0.70),
        ("small-1000", "100 B, 1,000 connections", 0.55, 0.70),
        ("deep-16", "10 x 16 in flight", 0.33, 0.42),
        ("kb-16", "16 KiB, 10 connections", 0.55, 0.70),
        ("fetch-10", "fetch 1 MiB, 10 connections", 0.70, 0.85),
        ("produce-10", "produce 1 MiB, 10 connections", 0.70, 0.85),
    ]
    return [
        Goal(
            f"CPU efficiency against the C relay, {title}",
            "",
            samples.efficiency(shape, SLUICE, RELAY),
            must,
            at_least=True,
            aim=aim,
        )
        for shape, title, must, aim in lines
    ]


def _latency(samples: Samples) -> list[Goal]:
    lines = [
        ("rate-1000", "1,000", HAPROXY, "HAProxy's", 1.5, None),
        ("rate-1000", "1,000", RELAY, "the C relay's", 2.2, 1.7),
        ("rate-4000", "4,000", RELAY, "the C relay's", 2.2, 1.7),
    ]
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
    lines = [
        ("a quota when nobody is throttled, 10 x 10 in flight", added, 1.0),
        ("a quota when nobody is throttled, in one process", costs.get(UNTHROTTLED), 1.0),
        ("to throttle and unmute, in one process", costs.get(THROTTLED), 3.0),
    ]
    return [Goal(what, "µs", measured, must, at_least=False) for what, measured, must in lines]


def added_ratio(samples: Samples, shape: str, yardstick: str) -> Spread | None:
    """What Sluice adds to the median latency, by what the yardstick adds.

    A quotient of medians: inside one round the divisor is a small difference and can be anything.
    """
    ours = samples.added_p50_us(shape, SLUICE, DIRECT)
    theirs = samples.added_p50_us(shape, yardstick, DIRECT)
    if ours is None or theirs is None or theirs.median <= 0:
        return None
    return spread([ours.median / theirs.median])


def _footprint(ours: Footprint | None) -> list[Goal]:
    def one(value: float | None) -> Spread | None:
        return None if value is None else spread([value])

    start = spread(ours.accept_seconds) if ours else None
    pair = ours.bytes_per_pair if ours and max(ours.resident_bytes) else None
    return [
        Goal(
            "memory of an idle pair", "bytes", one(pair), 4096, at_least=False, aim=2560, digits=0
        ),
        Goal(
            "resident memory at start",
            "MB",
            one(ours.resident_bytes[0] / MB if ours else None),
            45,
            at_least=False,
            aim=40,
            digits=1,
        ),
        Goal("start to accepting", "s", start, 0.5, at_least=False, aim=0.4),
        Goal(
            "CPU with 100 idle connections",
            "%",
            one(ours.idle_cpu_percent if ours else None),
            0.1,
            at_least=False,
            digits=3,
        ),
    ]
