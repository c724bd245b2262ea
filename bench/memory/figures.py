"""The results of a case: goals, figures, and what could not be measured; and their section of RESULTS.md.

Bytes are shown in MiB or KiB, times in seconds or milliseconds; a dash is a figure that was not measured. A goal about
an event that never happened (no connection closed, no answer) is not met, never "not measured". Each case has a section
of its own, so that it can be measured alone.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.goals import Goal, goal_table, max_goal
from bench.harness.markdown import facts_line, one_line, put_section, table
from bench.memory.frames import MIB

ALLOWANCE: Final = 1.1
"""Resident memory may exceed the accounted bytes by a tenth."""

_PATH: Final = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+")
NAME: Final = "memory"
HEAD: Final = """\
## Memory limits

Made by `make bench-memory`: Sluice in front of a real Apache Kafka of one broker, all on one machine. *Whole* means \
that a policy needs every Produce whole before it decides, so that each is buffered and charged to the pool. \
*Streaming* means that no policy does, and the bytes pass through. Resident memory is the kernel's peak (VmHWM) since \
the load began. The base is the resident memory just before, with every connection open and one request answered on \
each. The peak may exceed base and bound by a tenth."""


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


def with_cases(text: str, cases: Sequence[Case], facts: dict[str, str]) -> str:
    """Return the text of RESULTS.md with the sections of these cases replaced."""
    text = put_section(text, NAME, HEAD)
    for case in cases:
        text = put_section(text, NAME + case.name, section(case, facts))
    return text


def section(case: Case, facts: dict[str, str]) -> str:
    """Return a case's section: goals, figures, what was left out, and the machine."""
    parts = [f"### {case.title}", case.method]
    if case.error:
        parts.append(f"**Failed:** {_plain(case.error)}")
    if case.goals:
        parts.append(goal_table(case.goals))
    if case.rows:
        parts.append(table(case.heads, case.rows))
    if case.said:
        parts.append(f"```text\n{_PATH.sub('', case.said).strip()}\n```")
    if case.left_out:
        rows = [[what, _plain(reason)] for what, reason in case.left_out.items()]
        parts.append(table(["left out", "reason"], rows))
    parts.append(facts_line(facts))
    return "\n\n".join(parts)


def _plain(text: str) -> str:
    """Return one line for a table, without the folders of this machine."""
    return one_line(_PATH.sub("", text))
