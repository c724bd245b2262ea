"""The section of RESULTS.md about the soak, and its goals: whether a process leaks, from what it held over time.

Rules:
- A slope is fitted through the means of ten equal parts of the time, so that noise inside a part, which is related,
  counts once. Its bound is that of 95 % confidence.
- A series grows if the whole interval of its slope is above zero, and the growth over the time is more than a share of
  its mean. It is flat if such a growth is excluded. Otherwise the series is too noisy, or too short, to tell.
- Objects are counted at rest before and after the load, too: there the noise is small.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.goals import MB, Goal, goal_table, max_goal
from bench.harness.markdown import facts_line, table
from proxy.telemetry.decisions import MAX_DECISIONS, MAX_OBSERVED

PARTS: Final = 10
T_95: Final = 2.306
"""Student's t for PARTS - 2 degrees of freedom, 95 % on both sides."""
MAX_SHARE: Final = 0.02
"""A growth over the time by a smaller share of the mean is none."""
FEW: Final = 20
"""So many objects of a type come and go at rest: caches, tasks of Trio."""
BOUNDED: Final = {
    "proxy.telemetry.decisions.PolicyDecision": MAX_DECISIONS + MAX_OBSERVED,
    "proxy.core.stats.request_trace.RequestTrace": MAX_DECISIONS + FEW,
    "proxy.core.stats.request_trace.Stage": MAX_DECISIONS + FEW,
    "policies.api.QuotaViolation": MAX_DECISIONS + MAX_OBSERVED + FEW,
}
"""Objects that Sluice keeps on purpose, and the most of each type: the traces of this load have one stage each."""
FLAT, GROWS, UNKNOWN = "flat", "GROWS", "not known"

METHOD: Final = """\
Made by `make soak`. One Sluice with a quota, metrics and the admin server, before the broker stub, has a mixed load:
small requests and bulk both ways, idle connections (for the ten minutes that Sluice leaves them open), throttled
clients, slow readers, and connections that come, ask and end in different ways. Every few seconds it collects cycles
and counts its objects. A slope is fitted through the means of ten parts of the time, without the start, in which
histories and caches fill up; its bound has 95 % confidence. At rest there are no clients."""


@dataclass(frozen=True, slots=True)
class Held:
    """The memory and objects of a process at a time: `types` are the objects of each type."""

    at_s: float
    resident_bytes: int
    blocks: int
    types: dict[str, int]


@dataclass(frozen=True, slots=True)
class Growth:
    """The slope of a series and the bound of its error, for an hour; `mean` of the values, `hours` they span."""

    per_hour: float
    bound: float
    mean: float
    hours: float

    @property
    def word(self) -> str:
        """Return the verdict on the series."""
        least, most = self.per_hour - self.bound, self.per_hour + self.bound
        allowed = MAX_SHARE * self.mean / self.hours
        if least > 0 and self.per_hour > allowed:
            return GROWS
        return FLAT if most <= allowed else UNKNOWN


def read(file: Path) -> list[Held]:
    """Return what `bench.soak.counted` has written."""
    return [Held(**json.loads(line)) for line in file.read_text().splitlines()]


def between(samples: Iterable[Held], first_s: float, last_s: float) -> list[Held]:
    """Return the samples of this time."""
    return [each for each in samples if first_s <= each.at_s <= last_s]


def growth(times_s: Sequence[float], values: Sequence[float]) -> Growth:
    """Fit a line through the means of the parts.

    Raises:
        ValueError: there are fewer than two values for each part, or one has none.
    """
    began_s, span_s = times_s[0], times_s[-1] - times_s[0]
    parts: list[list[tuple[float, float]]] = [[] for _ in range(PARTS)]
    for at_s, value in zip(times_s, values, strict=True):
        parts[min(PARTS - 1, int((at_s - began_s) / span_s * PARTS))].append((at_s, value))
    if len(values) < 2 * PARTS or not all(parts):
        raise ValueError(f"{len(values)} samples are too few for {PARTS} parts")
    xs = [statistics.fmean(at_s for at_s, _ in part) / 3600 for part in parts]
    ys = [statistics.fmean(value for _, value in part) for part in parts]
    slope, middle = statistics.linear_regression(xs, ys)
    left = sum((y - middle - slope * x) ** 2 for x, y in zip(xs, ys, strict=True))
    spread = sum((x - statistics.fmean(xs)) ** 2 for x in xs)
    error = (left / (PARTS - 2) / spread) ** 0.5
    return Growth(slope, T_95 * error, statistics.fmean(ys), span_s / 3600)


def growing_types(before: dict[str, int], after: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Return the types with more objects at rest after the load than before it, with both counts."""
    found = {}
    for name, count in after.items():
        known = before.get(name, 0)
        if count > max(known + FEW, known * (1 + MAX_SHARE), BOUNDED.get(name, 0)):
            found[name] = (known, count)
    return found


@dataclass(frozen=True, slots=True)
class Soak:
    """The counts of a run: at rest before, under load, and at rest afterwards."""

    before: Held
    loaded: Sequence[Held]
    after: Held
    problems: Sequence[str]

    def growth(self, what: Callable[[Held], float]) -> Growth:
        """Return the growth of a figure under load."""
        return growth([each.at_s for each in self.loaded], [what(each) for each in self.loaded])

    @property
    def resident(self) -> Growth:
        """Return the growth of the resident memory, in bytes."""
        return self.growth(lambda each: each.resident_bytes)

    @property
    def blocks(self) -> Growth:
        """Return the growth of Python's allocated blocks."""
        return self.growth(lambda each: each.blocks)

    @property
    def growing(self) -> dict[str, tuple[int, int]]:
        """Return the types with more objects after the load than before."""
        return growing_types(self.before.types, self.after.types)

    @property
    def leaks(self) -> bool:
        """Return whether a series grows, or a type has more objects than before."""
        return bool(self.growing) or GROWS in {self.resident.word, self.blocks.word}


def goals(soak: Soak) -> list[Goal]:
    """Return the goals: no growth beyond the bound, no growing type, no problem."""
    return [
        max_goal(
            "series that grow under load",
            "",
            float([soak.resident.word, soak.blocks.word].count(GROWS)),
            0,
            0,
        ),
        max_goal("types with more objects afterwards", "", float(len(soak.growing)), 0, 0),
        max_goal("problems of clients or of Sluice", "", float(len(soak.problems)), 0, 0),
    ]


def section(soak: Soak, facts: dict[str, str]) -> str:
    """Return the section of RESULTS.md."""
    resident, blocks = soak.resident, soak.blocks
    slope_mb = f"{resident.per_hour / MB:+.2f} ± {resident.bound / MB:.2f}"
    slope_blocks = f"{blocks.per_hour:+,.0f} ± {blocks.bound:,.0f}"
    resident_cells = _cells(soak, lambda each: each.resident_bytes / MB, 1)
    objects = _cells(soak, lambda each: sum(each.types.values()), 0)
    rows = [
        ["resident, MB", *resident_cells, slope_mb, resident.word],
        ["allocated blocks", *_cells(soak, lambda each: each.blocks, 0), slope_blocks, blocks.word],
        ["collected objects", *objects, "", ""],
    ]
    heads = ["", "at rest before", "under load", "at rest afterwards", "slope per hour", ""]
    grown = [
        f"- `{name}`: {before:,} before, {after:,} afterwards"
        for name, (before, after) in sorted(soak.growing.items())
    ]
    parts = ["## Soak", METHOD, goal_table(goals(soak)), table(heads, rows)]
    if grown:
        parts.append("\n".join(["Types with more objects afterwards:", "", *grown]))
    if soak.problems:
        parts.append("\n".join(["Problems:", "", *(f"- {each}" for each in soak.problems)]))
    return "\n\n".join([*parts, facts_line(facts)])


def _cells(soak: Soak, what: Callable[[Held], float], digits: int) -> list[str]:
    under_load = soak.growth(what).mean
    return [f"{value:,.{digits}f}" for value in (what(soak.before), under_load, what(soak.after))]
