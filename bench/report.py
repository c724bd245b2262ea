"""bench/RESULTS.md and bench/results.svg from samples and footprints.

Every figure has its spread. The goals come first; failures are listed in full. The picture has CPU efficiency against a
yardstick as horizontal bars: a thin line on each bar is the spread; a dashed line marks the yardstick at 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bench.figures import Footprint, Sample, Samples
from bench.goals import MB, goal_table, goals
from bench.harness import svg
from bench.harness.figures import Spread, maybe_spread
from bench.harness.markdown import columns, facts_line, facts_table, one_line, place, table
from bench.harness.svg import text
from bench.shapes import SHAPES, Shape
from bench.variants import COMPILED_QUOTA, DIRECT, HAPROXY, RELAY, SLUICE_QUOTA

WIDTH, LEFT, RIGHT, TOP = 860, 236, 72, 76
BAR, GAP, GROUP_GAP = 13, 3, 16
COLOURS = 8

ORDER = """\
First what ordinary clients cost: real producers and consumers, and the instructions of single requests. Then the closed
loop, in which a load generator sends small requests of one partition as fast as they are answered."""
METHOD = """\
Made by `make bench` (see [README.md](README.md)). The load generator and the broker stub are C programs on one
core; the proxy is alone on another. All proxies run at once. Each round measures every shape through every variant,
in shuffled order, after a warm-up. CPU is the scheduler's nanoseconds of all processes of the proxy, divided by the
requests. *Efficiency* is the CPU of the yardstick divided by the variant's CPU in the same round; above 1 the
variant needs less. Added latency is the latency minus that of `direct` in the same round. Figures are medians over
the rounds, with the least and the greatest in brackets."""


@dataclass(frozen=True, slots=True)
class Group:
    """The bars of one shape: variant name -> figure."""

    title: str
    bars: dict[str, Spread]


def chart(title: str, note: str, groups: list[Group]) -> str:
    """Return the text of an SVG file; `groups` from top to bottom."""
    names = list(dict.fromkeys(name for group in groups for name in group.bars))
    limit = _limit(bar for group in groups for bar in group.bars.values())
    scale = (WIDTH - LEFT - RIGHT) / limit
    height = TOP + sum(len(group.bars) * (BAR + GAP) + GROUP_GAP for group in groups) + 34
    parts = [*_legend(names), *_axis(limit, scale, height)]
    y = TOP
    for group in groups:
        middle = y + len(group.bars) * (BAR + GAP) / 2 + 3
        parts.append(text(LEFT - 12, middle, "", group.title, anchor="end"))
        for name, bar in group.bars.items():
            parts += _bar(y, scale, names.index(name) % COLOURS, bar)
            y += BAR + GAP
        y += GROUP_GAP
    return svg.document(title, note, (WIDTH, height), parts)


def _limit(bars: Iterable[Spread]) -> float:
    """Return the end of the axis: the next quarter above every bar, at least 1.25."""
    greatest = max((bar.greatest for bar in bars), default=1.0)
    return max(1.25, (int(greatest * 4) + 1) / 4)


def _legend(names: list[str]) -> list[str]:
    parts, x = [], 16
    for nth, name in enumerate(names):
        parts.append(
            f'<rect x="{x}" y="54" width="11" height="11" rx="2" class="c{nth % COLOURS}"/>'
        )
        parts.append(text(x + 16, 64, "note", name))
        x += 34 + 7 * len(name)
    return parts


def _axis(limit: float, scale: float, height: int) -> list[str]:
    parts = []
    for nth in range(int(limit * 4) + 1):
        x = LEFT + nth / 4 * scale
        style = "one" if nth == 4 else "grid"
        parts.append(f'<path d="M{x:.1f} {TOP - 4}V{height - 32}" class="{style}"/>')
        parts.append(text(x, height - 14, "axis", f"{nth / 4:g}", anchor="middle"))
    return parts


def _bar(y: float, scale: float, colour: int, bar: Spread) -> list[str]:
    middle, end = y + BAR / 2, LEFT + max(bar.median, bar.greatest) * scale
    least, greatest = LEFT + bar.least * scale, LEFT + bar.greatest * scale
    box = f'x="{LEFT}" y="{y}" width="{bar.median * scale:.1f}" height="{BAR}" rx="2"'
    return [
        f'<rect {box} class="c{colour}"/>',
        f'<path d="M{least:.1f} {middle}H{greatest:.1f}" class="spread"/>',
        text(end + 6, y + BAR - 2, "note", f"{bar.median:.2f}"),
    ]


@dataclass(slots=True)
class Results:
    """The results of one run."""

    samples: Samples
    footprints: dict[str, Footprint]
    versions: dict[str, str]
    machine: dict[str, str]
    facts: dict[str, str] = field(default_factory=dict)  # date, rounds, seconds, ...

    @property
    def yardstick(self) -> str:
        """Return HAProxy if it was measured, else the C relay."""
        return HAPROXY if HAPROXY in self.versions else RELAY


def markdown(results: Results) -> str:
    """Return the text of RESULTS.md, without the sections of other benchmarks."""
    shapes = [shape for shape in SHAPES if _names(results, shape)]
    parts = [
        "# Benchmark results",
        ORDER,
        place("clients"),
        place("replay"),
        "## Closed loop",
        METHOD,
        "![CPU efficiency](results.svg)",
        "## Goals",
        goal_table(goals(results.samples, results.footprints)),
        *(part for shape in shapes for part in (f"## {shape.title}", _shape(results, shape))),
        "## Without load",
        _footprints(results),
        *_failures(results.samples),
        "## Machine and versions",
        facts_line({**results.facts, **results.machine}),
        facts_table(results.versions),
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
            if name not in {DIRECT, yardstick, SLUICE_QUOTA, COMPILED_QUOTA}
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
    samples = results.samples

    def own(what: Callable[[Sample], float], digits: int) -> Callable[[str], str]:
        return lambda name: _text(samples.of(shape.name, name, what), digits)

    def against(
        figure: Callable[[str, str, str], Spread | None], other: str, digits: int
    ) -> Callable[[str], str]:
        return lambda name: "" if name == DIRECT else _text(figure(shape.name, name, other), digits)

    cpu_us = own(lambda s: s.cpu_us, 2)
    return columns(
        _names(results, shape),
        [
            ("", str),
            ("CPU µs/request", lambda name: "" if name == DIRECT else cpu_us(name)),
            ("vs HAProxy", against(samples.efficiency, HAPROXY, 2)),
            ("vs C relay", against(samples.efficiency, RELAY, 2)),
            ("requests/s", own(lambda s: s.requests_per_second, 0)),
            ("MB/s", own(lambda s: s.megabytes_per_second, 1)),
            ("p50 µs", own(lambda s: s.p50_us, 0)),
            ("added p50 µs", against(samples.added_p50_us, DIRECT, 0)),
            ("added p99 µs", against(samples.added_p99_us, DIRECT, 0)),
        ],
    )


def _footprints(results: Results) -> str:
    counts = sorted({count for one in results.footprints.values() for count in one.resident_bytes})

    def resident(count: int) -> Callable[[Footprint], str]:
        return lambda one: (
            f"{one.resident_bytes[count] / MB:.1f}" if count in one.resident_bytes else ""
        )

    return columns(
        results.footprints.values(),
        [
            ("", lambda one: one.variant),
            ("accepts, ms", lambda one: _milliseconds(one.accept_seconds)),
            ("answers, ms", lambda one: _milliseconds(one.answer_seconds)),
            *((f"MB, {count:,} pairs", resident(count)) for count in counts),
            ("bytes/pair", lambda one: f"{one.bytes_per_pair:,.0f}"),
            ("idle CPU %", lambda one: f"{one.idle_cpu_percent:.3f}"),
        ],
    )


def _milliseconds(seconds: Iterable[float]) -> str:
    return _text(maybe_spread(value * 1000 for value in seconds), 0)


def _failures(samples: Samples) -> list[str]:
    if not samples.failures:
        return []
    rows = [[shape, name, one_line(reason)] for (shape, name), reason in samples.failures.items()]
    return ["## Failures", table(["shape", "variant", "reason"], rows)]


def _text(figure: Spread | None, digits: int) -> str:
    return "" if figure is None else figure.text(digits)
