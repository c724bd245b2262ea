"""The picture: CPU efficiency of each variant against a yardstick, as an SVG of horizontal bars.

Rules: no library and no script, colours for light and dark pages in one style sheet, text as text
(it can be read aloud and searched), spread as a thin line on each bar, the yardstick as a line at
1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.figures import Spread

WIDTH, LEFT, RIGHT, TOP = 860, 236, 72, 76
BAR, GAP, GROUP_GAP = 13, 3, 16
STYLE = """\
text { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #24292f }
.title { font-size: 17px; font-weight: 600 } .note, .axis { fill: #57606a; font-size: 12px }
.grid { stroke: #d0d7de } .one { stroke: #57606a; stroke-width: 1.5; stroke-dasharray: 4 3 }
.spread { stroke: #24292f; stroke-opacity: .55 }
.c0 { fill: #0969da } .c1 { fill: #8c959f } .c2 { fill: #1b9e77 } .c3 { fill: #bf6b1c }
.c4 { fill: #8250df }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .note, .axis { fill: #9198a1 }
.grid { stroke: #30363d } .one { stroke: #9198a1 }
.spread { stroke: #e6edf3 }
.c0 { fill: #4493f8 } .c1 { fill: #6e7681 } .c2 { fill: #3fb28f } .c3 { fill: #d98c45 }
.c4 { fill: #a371f7 }
}"""
COLOURS = 5


@dataclass(frozen=True, slots=True)
class Group:
    """The bars of one shape: variant name -> figure."""

    title: str
    bars: dict[str, Spread]


def svg(title: str, note: str, groups: list[Group]) -> str:
    """The chart as the text of an SVG file; `groups` from top to bottom."""
    names = list(dict.fromkeys(name for group in groups for name in group.bars))
    limit = _limit(bar for group in groups for bar in group.bars.values())
    scale = (WIDTH - LEFT - RIGHT) / limit
    height = TOP + sum(_group_height(group) for group in groups) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        _text(16, 24, "title", title),
        _text(16, 43, "note", note),
        *_legend(names),
        *_axis(limit, scale, height),
    ]
    y = TOP
    for group in groups:
        middle = y + len(group.bars) * (BAR + GAP) / 2 + 3
        parts.append(_text(LEFT - 12, middle, "", group.title, anchor="end"))
        for name, bar in group.bars.items():
            parts += _bar(y, scale, names.index(name) % COLOURS, bar)
            y += BAR + GAP
        y += GROUP_GAP
    return "\n".join([*parts, "</svg>", ""])


def _limit(bars: Iterable[Spread]) -> float:
    """The end of the axis: the next quarter above everything drawn, at least 1.25."""
    greatest = max((bar.greatest for bar in bars), default=1.0)
    return max(1.25, (int(greatest * 4) + 1) / 4)


def _group_height(group: Group) -> int:
    return len(group.bars) * (BAR + GAP) + GROUP_GAP


def _text(x: float, y: float, style: str, text: str, anchor: str = "start") -> str:
    at = f'x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"'
    return f'<text {at} class="{style}">{escape(text)}</text>'


def _legend(names: list[str]) -> list[str]:
    parts, x = [], LEFT
    for nth, name in enumerate(names):
        parts.append(
            f'<rect x="{x}" y="54" width="11" height="11" rx="2" class="c{nth % COLOURS}"/>'
        )
        parts.append(_text(x + 16, 64, "note", name))
        x += 34 + 7 * len(name)
    return parts


def _axis(limit: float, scale: float, height: int) -> list[str]:
    parts = []
    for nth in range(int(limit * 4) + 1):
        x = LEFT + nth / 4 * scale
        style = "one" if nth == 4 else "grid"
        parts.append(f'<path d="M{x:.1f} {TOP - 4}V{height - 32}" class="{style}"/>')
        parts.append(_text(x, height - 14, "axis", f"{nth / 4:g}", anchor="middle"))
    return parts


def _bar(y: float, scale: float, colour: int, bar: Spread) -> list[str]:
    middle, end = y + BAR / 2, LEFT + max(bar.median, bar.greatest) * scale
    least, greatest = LEFT + bar.least * scale, LEFT + bar.greatest * scale
    box = f'x="{LEFT}" y="{y}" width="{bar.median * scale:.1f}" height="{BAR}" rx="2"'
    return [
        f'<rect {box} class="c{colour}"/>',
        f'<path d="M{least:.1f} {middle}H{greatest:.1f}" class="spread"/>',
        _text(end + 6, y + BAR - 2, "note", f"{bar.median:.2f}"),
    ]
