"""What a case found: its goals, its figures, and what could not be measured.

Rules: bytes are shown in MiB or KiB, times in seconds or milliseconds; a figure that was not measured is a dash. A
goal of something that never happened (nobody was closed, nothing was answered) is not met, never "not measured".
"""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.figures import spread
from bench.goals import Goal
from bench.memory.frames import MIB

if TYPE_CHECKING:
    from collections.abc import Sequence

ALLOWANCE: Final = 1.1
"""Resident memory may be a tenth above what is accounted for."""


@dataclass(slots=True)
class Case:
    """One case of the benchmark, `name` being its letter. `law` says in words what was done."""

    name: str
    title: str
    law: str
    heads: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    said: str = ""
    """What a program printed, or a sentence more."""
    broken: str = ""
    """Why it came to no end."""

    @property
    def failed(self) -> bool:
        """Whether a goal was not met, or it came to no end."""
        return bool(self.broken) or any(goal.met is False for goal in self.goals)


@dataclass(frozen=True, slots=True)
class Resident:
    """Memory of a proxy: before the load, and the most during it; bytes."""

    base_bytes: int
    most_bytes: float

    def allowed_bytes(self, bound_bytes: int) -> float:
        """The most it may be when `bound_bytes` are accounted for."""
        return (self.base_bytes + bound_bytes) * ALLOWANCE

    def goal(self, who: str, bound_bytes: int) -> Goal:
        """At most the base, the bound and a tenth of both."""
        must = round(self.allowed_bytes(bound_bytes) / MIB, 1)
        return at_most(f"{who}: resident memory", "MiB", self.most_bytes / MIB, must, 1)


def at_most(what: str, unit: str, measured: float, must: float, digits: int = 2) -> Goal:
    """A goal with one figure."""
    return Goal(what, unit, spread([measured]), must, at_least=False, digits=digits)


def at_least(what: str, unit: str, measured: float, must: float, digits: int = 2) -> Goal:
    """A goal with one figure."""
    return Goal(what, unit, spread([measured]), must, at_least=True, digits=digits)


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all do not exceed; infinite of nothing, for nothing is no success."""
    if not values:
        return math.inf
    known = sorted(values)
    return known[min(len(known) - 1, math.ceil(share * len(known)) - 1)]


def median(values: Sequence[float]) -> float:
    """Infinite of nothing."""
    return statistics.median(values) if values else math.inf


def longest_gap(times: Sequence[float], began: float, ended: float) -> float:
    """The longest time in which nothing happened, between `began` and `ended`."""
    marks = [began, *sorted(times), ended]
    return max(after - before for before, after in itertools.pairwise(marks))


def mib(size_bytes: float | None) -> str:
    """For a table."""
    if size_bytes is None or not math.isfinite(size_bytes):
        return "-"
    return f"{size_bytes / MIB:,.1f}"


def base_and_most(memory: Resident | None) -> tuple[str, str]:
    """Two cells for a table, MiB; dashes where there was no proxy."""
    if memory is None:
        return mib(None), mib(None)
    return mib(memory.base_bytes), mib(memory.most_bytes)


def seconds(value: float | None, digits: int = 2) -> str:
    """For a table."""
    return "-" if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"


def milliseconds(value: float) -> str:
    """Of seconds, for a table."""
    return seconds(value * 1000, 0)
