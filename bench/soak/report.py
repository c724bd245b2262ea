"""The section of RESULTS.md about the soak, and its goals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.goals import MB, Goal, goal_table, max_goal
from bench.harness.markdown import facts_line, table
from bench.soak.verdict import GROWS, Growth, Held, growing_types, growth

METHOD: Final = """\
Made by `make soak`. One Sluice with a quota, metrics and the admin server, before the broker stub, has a mixed load:
small requests and bulk both ways, idle connections (for the ten minutes that Sluice leaves them open), throttled
clients, slow readers, and connections that come, ask and end in different ways. Every few seconds it collects cycles
and counts its objects. A slope is fitted through the means of ten parts of the time, without the start, in which
histories and caches fill up; its bound has 95 % confidence. At rest there are no clients."""


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
        max_goal("series that grow under load", "", float(_grown(soak)), 0, 0),
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


def _grown(soak: Soak) -> int:
    return [soak.resident.word, soak.blocks.word].count(GROWS)
