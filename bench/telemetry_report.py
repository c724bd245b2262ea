"""What `python -m bench.telemetry` found, and its section of RESULTS.md.

Rules: every row is written as it was found; a goal that was not met says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.figures import Spread

GOAL_US = 0.5
METRIC_GOAL_US = 0.1
METHOD = """\
Made by `make bench-telemetry`: one session in one process, no socket and no kernel, a small Produce and its reply, 16
in a read where nothing else is said. *Added* is against the first row of its kind: the same loops with the counting
statements taken out of their source. *In all* has the threads that encode and write, too: the goal is of that."""
ONCE = """\
What the loop does once a second and once a scrape, at {connections:,} connections with a request in flight each, and
{rows:,} users in a second. The page is rendered off the loop."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of CPU a request and its reply; what is added is None for a yardstick."""

    name: str
    own: Spread
    added_loop: Spread | None
    added_all: Spread | None
    metrics: int = 0
    """What is added is shared by so many metrics, and nothing else; 0: it is not."""
    goal: bool = True


@dataclass(frozen=True, slots=True)
class Once:
    """Milliseconds of CPU, and bytes."""

    connections: int
    rows: int
    turn_ms: float
    collect_ms: float
    render_ms: float
    page_bytes: int


@dataclass(frozen=True, slots=True)
class Found:
    """Everything a run found."""

    costs: list[Cost]
    once: Once
    facts: dict[str, str]


def section(found: Found) -> str:
    """Its part of RESULTS.md."""
    once = found.once
    parts = [
        "## What it costs to be seen",
        METHOD,
        _table(
            ["", "µs on the loop", "added on the loop", "added in all", f"≤ {GOAL_US:g} µs"],
            [_row(cost) for cost in found.costs],
        ),
        ONCE.format(connections=once.connections, rows=once.rows),
        _table(
            ["", ""],
            [
                [
                    "a second's rows, first turn (the others come by themselves)",
                    f"{once.turn_ms:.2f} ms",
                ],
                ["to collect a page", f"{once.collect_ms:.1f} ms"],
                ["to render it", f"{once.render_ms:.1f} ms"],
                ["the page", f"{once.page_bytes / 1024:,.0f} KiB"],
            ],
        ),
        _table(["", ""], [[key, value] for key, value in found.facts.items()]),
    ]
    return "\n\n".join(parts)


def _row(cost: Cost) -> list[str]:
    if cost.added_loop is None or cost.added_all is None:
        return [cost.name, cost.own.text(2), "", "", ""]
    verdict = ""
    if cost.goal:
        verdict = "met" if cost.added_all.median <= GOAL_US else "**NOT MET**"
    if cost.metrics:
        each_us = cost.added_loop.median / cost.metrics
        found = "met" if each_us <= METRIC_GOAL_US else "**NOT MET**"
        verdict += f"; each of {cost.metrics} metrics {each_us:.2f} (≤ {METRIC_GOAL_US:g} {found})"
    return [
        cost.name,
        cost.own.text(2),
        cost.added_loop.text(2),
        cost.added_all.text(2),
        verdict,
    ]


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
