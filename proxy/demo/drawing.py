"""The figures on the page of a run, as SVG text.

Rules:
- A mark is a measured value at its place; nothing is smoothed.
- Latencies and rates that differ by orders of magnitude stand on a logarithmic axis, which says so by its marks.
- Every drawing says in words what it shows (`aria-label`); the figures themselves stand in a table beside it.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

WIDTH = 860
LABEL = 190
RIGHT = 20
ROW = 34
AXIS = 36
SMALLEST = 0.1
"""What is less is drawn there."""
CHART_WIDTH, CHART_HEIGHT = 276, 64


class Strip(NamedTuple):
    """One line of marks. `dots` are filled, `rings` are not; `bounds` are short strokes across the line."""

    label: str
    dots: Sequence[float]
    rings: Sequence[float] = ()
    bounds: Sequence[float] = ()
    tone: str = ""
    """A class of the style sheet."""


def strips(lines: Sequence[Strip], unit: str, words: str) -> str:
    """Draw lines of marks over one logarithmic axis. Raises ValueError when there is no value at all."""
    values = [max(v, SMALLEST) for line in lines for v in (*line.dots, *line.rings, *line.bounds)]
    if not values:
        raise ValueError("nothing to draw")
    first, last = min(values) / 1.25, max(values) * 1.25
    scale = (WIDTH - LABEL - RIGHT) / math.log(last / first)

    def x(value: float) -> float:
        return round(LABEL + math.log(max(value, SMALLEST) / first) * scale, 1)

    bottom = len(lines) * ROW
    drawn = [
        part
        for mark in marks(first, last)
        for part in (
            f'<path class="grid" d="M{x(mark)} 0V{bottom}"/>',
            f'<text class="tick" x="{x(mark)}" y="{bottom + 16}">{mark:,g}</text>',
        )
    ]
    drawn.append(
        f'<text class="unit" x="{WIDTH - RIGHT}" y="{bottom + AXIS - 6}">{escape(unit)}</text>'
    )
    for at, line in enumerate(lines):
        y = at * ROW + ROW / 2
        drawn += [
            f'<g class="strip {line.tone}">',
            f'<text class="name" x="{LABEL - 14}" y="{y + 4}">{escape(line.label)}</text>',
            f'<path class="rule" d="M{LABEL} {y}H{WIDTH - RIGHT}"/>',
            *(f'<path class="bound" d="M{x(v)} {y - 12}v24"/>' for v in line.bounds),
            *(f'<circle class="ring" cx="{x(v)}" cy="{y}" r="4"/>' for v in line.rings),
            *(f'<circle class="dot" cx="{x(v)}" cy="{y}" r="4"/>' for v in line.dots),
            "</g>",
        ]
    return _svg(WIDTH, bottom + AXIS, words, drawn)


def marks(first: float, last: float) -> list[float]:
    """Return the round values between two: 1, 2, 5 times the powers of ten, or only those if that is many."""
    lowest, highest = math.floor(math.log10(first)), math.ceil(math.log10(last))
    steps = (1, 2, 5) if math.log10(last / first) < 2.5 else (1,)
    found = [step * 10.0**power for power in range(lowest, highest + 1) for step in steps]
    return [mark for mark in found if first <= mark <= last]


def course(points: Iterable[tuple[float, float]], words: str) -> str:
    """Draw one figure over time: (second, value), over a filled ground, from nought up."""
    known = list(points)
    if not known:
        raise ValueError("nothing to draw")
    since, until = known[0][0], max(known[-1][0], known[0][0] + 1)
    top = max(*(value for _, value in known), 1e-09)
    places = [
        f"{(at - since) / (until - since) * CHART_WIDTH:.1f} "
        f"{CHART_HEIGHT - 1 - value / top * (CHART_HEIGHT - 4):.1f}"
        for at, value in known
    ]
    line = "L".join(places)
    ground = f"M0 {CHART_HEIGHT}L{line}L{places[-1].split()[0]} {CHART_HEIGHT}Z"
    return _svg(
        CHART_WIDTH,
        CHART_HEIGHT,
        words,
        [f'<path class="ground" d="{ground}"/>', f'<path class="line" d="M{line}"/>'],
    )


def places(
    clients: Sequence[tuple[str, Container[str]]], ports: Sequence[str], brokers: Sequence[str]
) -> str:
    """Draw who was connected to whom: each client to the ports it was seen at, each node port to its broker.

    The first port is the bootstrap port; the others are in the order of the brokers.
    """
    rows = max(len(clients), len(ports), len(brokers) + 1)
    height = rows * ROW + 26
    left, middle, right, wide = 10, 330, 650, 200

    def y(row: int) -> int:
        return 26 + row * ROW + 13

    def box(x: int, row: int, text: str) -> str:
        frame = f'<rect x="{x}" y="{y(row) - 12}" width="{wide}" height="24" rx="3"/>'
        return f'{frame}<text x="{x + wide / 2:g}" y="{y(row) + 4}">{escape(text)}</text>'

    heads = zip((left, middle, right), ("clients", "Sluice", "brokers"), strict=True)
    drawn = [f'<text class="head" x="{x + wide / 2:g}" y="13">{name}</text>' for x, name in heads]
    for row, (_, used) in enumerate(clients):
        ends = (f"L{middle} {y(at)}" for at, port in enumerate(ports) if port in used)
        drawn += [f'<path class="wire" d="M{left + wide} {y(row)}{end}"/>' for end in ends]
    drawn += [
        f'<path class="wire" d="M{middle + wide} {y(row)}H{right}"/>'
        for row in range(1, len(brokers) + 1)
    ]
    drawn.append('<g class="box">')
    drawn += [box(left, row, text) for row, (text, _) in enumerate(clients)]
    drawn.append('</g><g class="box ours">')
    drawn += [box(middle, row, text) for row, text in enumerate(ports)]
    drawn.append('</g><g class="box">')
    drawn += [box(right, row, text) for row, text in enumerate(brokers, 1)]
    drawn.append("</g>")
    words = (
        f"{len(clients)} clients, each connected to Sluice only; Sluice to {len(brokers)} brokers"
    )
    return _svg(WIDTH, height, words, drawn, "places")


def _svg(width: int, height: int, words: str, parts: Iterable[str], kind: str = "figure") -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(words)}">'
        f"{''.join(parts)}</svg>"
    )
