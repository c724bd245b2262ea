"""The picture of results.svg: CPU efficiency against a yardstick, as horizontal bars.

A thin line on each bar is the spread; a dashed line marks the yardstick at 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from bench.harness import svg
from bench.harness.figures import Spread
from bench.harness.svg import text

WIDTH, LEFT, RIGHT, TOP = 860, 236, 72, 76
BAR, GAP, GROUP_GAP = 13, 3, 16
COLOURS = 8


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
    height = TOP + sum(_group_height(group) for group in groups) + 34
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


def _group_height(group: Group) -> int:
    return len(group.bars) * (BAR + GAP) + GROUP_GAP


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
