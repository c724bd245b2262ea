"""bench/RESULTS.md and bench/results.svg from samples and footprints.

Rules: every figure with its spread; goals first, with met, NOT MET or not measured; failures in
full; nothing is left out because it looks bad.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.chart import Group, svg
from bench.figures import Footprint, Samples, Spread, spread
from bench.goals import MB, Goal, goals
from bench.shapes import SHAPES, Shape
from bench.variants import DIRECT, HAPROXY, RELAY

if TYPE_CHECKING:
    from bench.path import Cost

METHOD = """\
Made by `make bench` (see [README.md](README.md)). Load generator and broker stub in C on one
core, the proxy alone on another; all proxies alive at once, shuffled inside each round, rounds
interleaved, every run warmed up. CPU is the scheduler's nanoseconds of the proxy's whole process
tree, divided by the requests measured. *Efficiency* is the CPU of the yardstick divided by this
one's, taken inside each round; above 1 means less CPU than the yardstick. Added latency is minus
`direct` of the same round. Figures are medians over the rounds, in brackets least and greatest."""


@dataclass(slots=True)
class Results:
    """Everything a run found."""

    samples: Samples
    footprints: dict[str, Footprint]
    versions: dict[str, str]
    machine: dict[str, str]
    facts: dict[str, str] = field(default_factory=dict)  # date, rounds, seconds, ...
    path: list[Cost] = field(default_factory=list)

    @property
    def yardstick(self) -> str:
        """HAProxy where it was measured, else the C relay."""
        return HAPROXY if HAPROXY in self.versions else RELAY


def markdown(results: Results) -> str:
    """The text of RESULTS.md."""
    shapes = [shape for shape in SHAPES if _names(results, shape)]
    parts = [
        "# What Sluice costs",
        METHOD,
        "![CPU efficiency](results.svg)",
        "## Goals",
        goal_table(goals(results.samples, results.footprints, results.path)),
        *(part for shape in shapes for part in (f"## {shape.title}", _shape(results, shape))),
        *_path(results.path),
        "## Before any work",
        _footprints(results),
        *_failures(results.samples),
        "## Where and what",
        table(
            ["", ""],
            [
                [key, value]
                for key, value in {**results.facts, **results.machine, **results.versions}.items()
            ],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def picture(results: Results) -> str:
    """The text of results.svg."""
    yardstick = results.yardstick
    groups = []
    for shape in SHAPES:
        bars = {
            name: figure
            for name in results.versions
            if name not in {DIRECT, yardstick}
            and (figure := results.samples.efficiency(shape.name, name, yardstick))
        }
        if bars:
            groups.append(Group(shape.title, bars))
    note = (
        f"CPU time per request: {yardstick}'s divided by this one's. "
        "Longer is better; thin line: least to greatest."
    )
    return svg(f"CPU efficiency against {yardstick} (= 1)", note, groups)


def goal_table(lines: list[Goal]) -> str:
    """Goals with what was measured: met, NOT MET or not measured."""
    words = {True: "met", False: "**NOT MET**", None: "not measured"}
    rows = []
    for goal in lines:
        sign = "≥" if goal.at_least else "≤"
        rows.append(
            [
                goal.what,
                f"{sign} {goal.must:g} {goal.unit}".strip(),
                "" if goal.aim is None else f"{sign} {goal.aim:g}",
                "" if goal.measured is None else goal.measured.text(goal.digits),
                words[goal.met],
            ]
        )
    return table(["goal", "must", "aim", "measured", ""], rows)


def _names(results: Results, shape: Shape) -> list[str]:
    return [
        name
        for name in results.versions
        if results.samples.of(shape.name, name, lambda s: s.p50_us)
    ]


def _shape(results: Results, shape: Shape) -> str:
    samples, rows = results.samples, []
    for name in _names(results, shape):
        proxied = name != DIRECT
        rows.append(
            [
                name,
                _text(samples.of(shape.name, name, lambda s: s.cpu_us), 2) if proxied else "",
                _text(samples.efficiency(shape.name, name, HAPROXY), 2) if proxied else "",
                _text(samples.efficiency(shape.name, name, RELAY), 2) if proxied else "",
                _text(samples.of(shape.name, name, lambda s: s.requests_per_second), 0),
                _text(samples.of(shape.name, name, lambda s: s.megabytes_per_second), 1),
                _text(samples.of(shape.name, name, lambda s: s.p50_us), 0),
                _text(samples.added_p50_us(shape.name, name, DIRECT), 0) if proxied else "",
                _text(samples.added_p99_us(shape.name, name, DIRECT), 0) if proxied else "",
            ]
        )
    heads = ["", "CPU µs/request", "vs HAProxy", "vs C relay", "requests/s", "MB/s"]
    return table([*heads, "p50 µs", "added p50 µs", "added p99 µs"], rows)


def _footprints(results: Results) -> str:
    counts = sorted({count for one in results.footprints.values() for count in one.resident_bytes})
    rows = []
    for name, one in results.footprints.items():
        rows.append(
            [
                name,
                _text(_milliseconds(one.accept_seconds), 0),
                _text(_milliseconds(one.answer_seconds), 0),
                *(
                    f"{one.resident_bytes[count] / MB:.1f}" if count in one.resident_bytes else ""
                    for count in counts
                ),
                f"{one.bytes_per_pair:,.0f}",
                f"{one.idle_cpu_percent:.3f}",
            ]
        )
    resident = [f"MB, {count:,} pairs" for count in counts]
    return table(["", "accepts, ms", "answers, ms", *resident, "bytes/pair", "idle CPU %"], rows)


def _milliseconds(seconds: tuple[float, ...]) -> Spread | None:
    return spread(value * 1000 for value in seconds)


def _path(costs: list[Cost]) -> list[str]:
    if not costs:
        return []
    rows = [[each.name, each.own.text(2), _text(each.added, 2)] for each in costs]
    note = (
        "One session in one process, no socket and no kernel (bench/path.py): CPU time of a 100 B "
        "Produce and its reply. What a throttle costs is paid once per throttled request: it mutes, "
        "stamps the reply, and unmutes from the timing wheel."
    )
    return [
        "## Policies on the request path",
        note,
        table(["", "µs a request", "added µs"], rows),
    ]


def _failures(samples: Samples) -> list[str]:
    if not samples.failures:
        return []
    rows = [[shape, name, why.replace("|", "/")] for (shape, name), why in samples.failures.items()]
    return ["## Failures", table(["shape", "variant", "reason"], rows)]


def _text(figure: Spread | None, digits: int) -> str:
    return "" if figure is None else figure.text(digits)


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
