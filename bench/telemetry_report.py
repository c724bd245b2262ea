"""The results of `python -m bench.telemetry`, and its section of RESULTS.md.

Every row is written; a goal that was not met is marked.
"""

from dataclasses import dataclass
from typing import Final

from bench.harness.markdown import facts_table, table
from bench.in_process import Cost

GOAL_US: Final = 0.5
METHOD: Final = """\
Made by `make bench-telemetry`: one session in one process, without sockets or kernel; a small Produce and its reply,
16 in a read unless stated otherwise. *Added* is relative to the row of the same kind without listeners. *In all*
includes the threads that encode and write; the goal applies to it."""
ONCE: Final = """\
The work of the loop once a second and once a scrape, with {connections:,} connections that have a request in flight
each, and {rows:,} users in a second. The page is rendered off the loop."""


@dataclass(frozen=True, slots=True)
class Once:
    """Costs that do not depend on the number of requests: milliseconds of CPU, and bytes."""

    connections: int
    rows: int
    turn_ms: float
    collect_ms: float
    render_ms: float
    page_bytes: int


@dataclass(frozen=True, slots=True)
class Found:
    """The results of one run."""

    costs: list[Cost]
    once: Once
    facts: dict[str, str]
    without_goal: set[str]


def section(found: Found) -> str:
    """Return the section of RESULTS.md."""
    once = found.once
    parts = [
        "## The cost of telemetry",
        METHOD,
        table(
            ["", "µs on the loop", "added on the loop", "added in all", f"≤ {GOAL_US:g} µs"],
            [_row(cost, found.without_goal) for cost in found.costs],
        ),
        ONCE.format(connections=once.connections, rows=once.rows),
        facts_table(
            {
                "a second's rows, first turn (the others follow in later turns)": (
                    f"{once.turn_ms:.2f} ms"
                ),
                "collect a page": f"{once.collect_ms:.1f} ms",
                "render it": f"{once.render_ms:.1f} ms",
                "the page": f"{once.page_bytes / 1024:,.0f} KiB",
            }
        ),
        facts_table(found.facts),
    ]
    return "\n\n".join(parts)


def _row(cost: Cost, without_goal: set[str]) -> list[str]:
    if cost.added is None or cost.added_in_all is None:
        return [cost.name, cost.own.text(2), "", "", ""]
    verdict = "met" if cost.added_in_all.median <= GOAL_US else "**NOT MET**"
    figures = (cost.own, cost.added, cost.added_in_all)
    verdict = "" if cost.name in without_goal else verdict
    return [cost.name, *(figure.text(2) for figure in figures), verdict]
