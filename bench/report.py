"""bench/RESULTS.md and bench/results.svg from samples and footprints.

Every figure has its spread. The goals come first; failures are listed in full.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.chart import Group, chart
from bench.goals import MB, goal_table, goals
from bench.harness.figures import maybe_spread
from bench.harness.markdown import cell, facts_table, table
from bench.shapes import SHAPES, Shape
from bench.variants import DIRECT, HAPROXY, RELAY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.figures import Footprint, Samples
    from bench.harness.figures import Spread
    from bench.in_process import Cost

METHOD = """\
Made by `make bench` (see [README.md](README.md)). The load generator and the broker stub are C programs on one
core; the proxy is alone on another. All proxies run at once. Each round measures every shape through every variant,
in shuffled order, after a warm-up. CPU is the scheduler's nanoseconds of all processes of the proxy, divided by the
requests. *Efficiency* is the CPU of the yardstick divided by the variant's CPU in the same round; above 1 the
variant needs less. Added latency is the latency minus that of `direct` in the same round. Figures are medians over
the rounds, with the least and the greatest in brackets."""
PATH = """\
One session in one process, without sockets or kernel (`bench/path.py`): the CPU time of a 100 B Produce and its
reply. The cost of a throttle is paid once for each throttled request: Sluice mutes the connection, writes the
throttle time into the reply, and unmutes from the timing wheel."""


@dataclass(slots=True)
class Results:
    """The results of one run."""

    samples: Samples
    footprints: dict[str, Footprint]
    versions: dict[str, str]
    machine: dict[str, str]
    facts: dict[str, str] = field(default_factory=dict)  # date, rounds, seconds, ...
    path: list[Cost] = field(default_factory=list)

    @property
    def yardstick(self) -> str:
        """Return HAProxy if it was measured, else the C relay."""
        return HAPROXY if HAPROXY in self.versions else RELAY


def markdown(results: Results) -> str:
    """Return the text of RESULTS.md, without the sections of other benchmarks."""
    shapes = [shape for shape in SHAPES if _names(results, shape)]
    parts = [
        "# Benchmark results",
        METHOD,
        "![CPU efficiency](results.svg)",
        "## Goals",
        goal_table(goals(results.samples, results.footprints, results.path)),
        *(part for shape in shapes for part in (f"## {shape.title}", _shape(results, shape))),
        *_path(results.path),
        "## Without load",
        _footprints(results),
        *_failures(results.samples),
        "## Machine and versions",
        facts_table({**results.facts, **results.machine, **results.versions}),
    ]
    return "\n\n".join(parts) + "\n"


def picture(results: Results) -> str:
    """Return the text of results.svg."""
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
    return chart(f"CPU efficiency against {yardstick} (= 1)", note, groups)


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
                _milliseconds(one.accept_seconds),
                _milliseconds(one.answer_seconds),
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


def _milliseconds(seconds: Iterable[float]) -> str:
    return _text(maybe_spread(value * 1000 for value in seconds), 0)


def _path(costs: list[Cost]) -> list[str]:
    if not costs:
        return []
    rows = [[each.name, each.own.text(2), _text(each.added, 2)] for each in costs]
    return ["## Policies on the request path", PATH, table(["", "µs a request", "added µs"], rows)]


def _failures(samples: Samples) -> list[str]:
    if not samples.failures:
        return []
    rows = [[shape, name, cell(reason)] for (shape, name), reason in samples.failures.items()]
    return ["## Failures", table(["shape", "variant", "reason"], rows)]


def _text(figure: Spread | None, digits: int) -> str:
    return "" if figure is None else figure.text(digits)
