"""The results of a case: goals, figures, and what could not be measured.

Bytes are shown in MiB or KiB, times in seconds or milliseconds; a dash is a figure that was not measured. A goal about
an event that never happened (no connection closed, no answer) is not met, never "not measured".
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.goals import Goal, max_goal
from bench.memory.frames import MIB

ALLOWANCE: Final = 1.1
"""Resident memory may exceed the accounted bytes by a tenth."""


@dataclass(slots=True)
class Case:
    """One case of the benchmark. `name` is its letter; `method` describes it."""

    name: str
    title: str
    method: str
    heads: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    said: str = ""
    """Output of a program, or a further sentence."""
    error: str = ""
    """The error that ended the case early."""

    @property
    def failed(self) -> bool:
        """Return whether a goal was not met or an error ended the case."""
        return bool(self.error) or any(goal.met is False for goal in self.goals)

    def note_problems(self, problems: Sequence[str], prefix: str = "") -> None:
        """List the first three problems."""
        if problems:
            self.left_out[f"{prefix}problems, the first"] = "; ".join(problems[:3])


@dataclass(frozen=True, slots=True)
class Resident:
    """Resident memory of a proxy in bytes: before the load, and the peak during it."""

    base_bytes: int
    peak_bytes: float

    def allowed_bytes(self, bound_bytes: int) -> float:
        """Return the allowed peak if `bound_bytes` are accounted for."""
        return (self.base_bytes + bound_bytes) * ALLOWANCE

    def goal(self, title: str, bound_bytes: int) -> Goal:
        """Return the goal for the peak: base and bound, plus a tenth of both."""
        must = round(self.allowed_bytes(bound_bytes) / MIB, 1)
        return max_goal(f"{title}: resident memory", "MiB", self.peak_bytes / MIB, must, 1)


def longest_gap(times: Sequence[float], began: float, ended: float) -> float:
    """Return the longest time without an event, between `began` and `ended`."""
    marks = [began, *sorted(times), ended]
    return max(after - before for before, after in itertools.pairwise(marks))


def mib(size_bytes: float | None) -> str:
    """Return a size in MiB for a table."""
    if size_bytes is None or not math.isfinite(size_bytes):
        return "-"
    return f"{size_bytes / MIB:,.1f}"


def base_and_peak(memory: Resident | None) -> tuple[str, str]:
    """Return two cells of a table in MiB; dashes if there is no proxy."""
    if memory is None:
        return mib(None), mib(None)
    return mib(memory.base_bytes), mib(memory.peak_bytes)


def seconds(value: float | None, digits: int = 2) -> str:
    """Return seconds for a table."""
    return "-" if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"


def milliseconds(value: float) -> str:
    """Return seconds as milliseconds for a table."""
    return seconds(value * 1000, 0)
