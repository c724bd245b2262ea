"""Pieces of the page's HTML. Text is escaped here and nowhere else.

Rules:
- Text that clients chose is shown with its control characters as escapes, in an element of its own (`bdi`), so that a
  name in another writing direction does not turn its neighbours around.
- A table that is wider than a phone scrolls inside a box that the keyboard reaches.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from pipeline.report.chart_style import SHADES, SIZES, svg_of
from pipeline.report.labels import NO_NAME, shortened
from policies.escaping import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import altair as alt

    from pipeline.report.chart_style import ChartSize

NAME_COLUMNS: Final = 80
_SHAPES: Final = {
    "area": '<rect width="16" height="12" rx="2" fill="{}"/>',
    "faint": '<rect width="16" height="12" rx="2" fill="{}" opacity=".28"/>',
    "line": '<rect y="4.5" width="16" height="3" rx="1.5" fill="{}"/>',
    "dash": '<path d="M0 6H16" stroke="{}" stroke-width="2" stroke-dasharray="3 2"/>',
    "small": '<circle cx="8" cy="6" r="3.5" fill="{}"/>',
    "large": '<circle cx="8" cy="6" r="5.5" fill="{}"/>',
    "ring": '<circle cx="8" cy="6" r="5" fill="none" stroke="{}" stroke-width="2"/>',
    "tick": '<rect x="6.5" width="3" height="12" fill="{}"/>',
    "diamond": '<path d="M8 .5L13.500 6L8 11.500L2.500 6Z" fill="none" stroke="{}" stroke-width="1.8"/>',
}


class TableColumn(NamedTuple):
    """The heading of a column, and what its cells are: `name`, `number`, `code` or `text`."""

    heading: str
    kind: str = "number"


CLIENT_COLUMN: Final = TableColumn("client", "name")
_SHARE_WORDS: Final = (
    "under 1 % throttled", "1 to 5 %", "5 to 20 %", "20 to 50 %", "over 50 %",
)  # fmt: skip
SHARE_KEY: Final = tuple(
    ("area", colour, words) for colour, words in zip(SHADES, _SHARE_WORDS, strict=True)
)
"""The key of shades, whose bounds are `chart_style.STEPS`."""


def name_of(name: str) -> str:
    """Return a name that a client chose, as HTML."""
    return f"<bdi>{escape(shortened(escaped(name), NAME_COLUMNS) or NO_NAME)}</bdi>"


def key_of(entries: Iterable[tuple[str, str, str]]) -> str:
    """Return the key of a chart: shape, colour and words of each mark."""
    items = "".join(
        f'<li><svg viewBox="0 0 16 12" aria-hidden="true">{_SHAPES[shape].format(colour)}</svg>'
        f"<bdi>{escape(words)}</bdi></li>"
        for shape, colour, words in entries
    )
    return f'<ul class="key">{items}</ul>'


def figure_of(chart: Callable[[ChartSize], alt.TopLevelMixin], description: str) -> str:
    """Return a chart for each size of the screen, of which the style sheet shows one."""
    drawn = "".join(svg_of(chart(size), description, size) for size in SIZES)
    return f"<figure>{drawn}</figure>"


def table_of(
    caption: str,
    columns: Sequence[TableColumn],
    rows: Iterable[Sequence[str]],
    *,
    folded: bool = True,
) -> str:
    """Return a table, folded away under its caption unless told otherwise."""
    head = "".join(f'<th class="{_class(each)}">{escape(each.heading)}</th>' for each in columns)
    body = "".join(f"<tr>{''.join(map(_cell, columns, row))}</tr>" for row in rows)
    inner = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    region = f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(caption)}"><table>'
    if folded:
        return f"<details><summary>{escape(caption)}</summary>{region}{inner}</details>"
    return f"{region}<caption>{escape(caption)}</caption>{inner}"


def section_of(title: str, note: str, *parts: str) -> str:
    """Return a section. The title is the finding in words, the note says how to read the chart; both are text."""
    return f'<section><h2>{escape(title)}</h2><p class="note">{escape(note)}</p>{"".join(parts)}</section>'


def _class(column: TableColumn) -> str:
    return "" if column.kind in ("name", "text") else column.kind


def _cell(column: TableColumn, text: str) -> str:
    if column.kind == "name":
        return f'<th scope="row">{name_of(text)}</th>'
    return f'<td class="{_class(column)}">{escape(text)}</td>'
