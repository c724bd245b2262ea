"""How all charts look, and how a chart becomes SVG.

Rules:
- Colours are CSS variables of the page (`page.css`), so one SVG serves the light and the dark scheme, and print.
- Each chart is drawn twice, WIDE and NARROW; the page shows the one that fits the screen. Widths are totals: a chart
  is fitted into its width with axes and labels.
- vl-convert measures text with fonts of its own. Labels beside an axis therefore get a space that is computed here, for
  the widest of the usual fonts.
- A chart has no text that only a script could show. Its description is the `aria-label`, its figures are in a table.
"""

from __future__ import annotations

import math
import re
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

import altair as alt
import vl_convert

from pipeline.report.labels import time_format, width

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pipeline.report.facts import Scope


INK, INK_2, RULE, GROUND = "var(--ink)", "var(--ink-2)", "var(--rule)", "var(--ground)"
FLOW, THROTTLED, BOUND = "var(--flow)", "var(--throttled)", "var(--bound)"
USERS: Final = ("var(--u1)", "var(--u2)", "var(--u3)", "var(--u4)")
"""Of the users with most requests; all others have OTHERS."""
OTHERS: Final = "var(--u5)"
STAGE_COLOURS: Final = {
    "upstream": "var(--flow)",
    "throttle": "var(--throttled)",
    "purgatory": "var(--purgatory)",
    "memory": "var(--memory)",
    "receive": "var(--receive)",
}
STEPS: Final = (0.01, 0.05, 0.2, 0.5)
"""The bounds between the shades of a share; below the first is a shade of its own, and nothing at all has none."""
SHADES: Final = tuple(f"var(--h{each})" for each in range(len(STEPS) + 1))
SHADE_INKS: Final = tuple(f"var(--i{each})" for each in range(len(STEPS) + 1))
FONT: Final = "Liberation Sans, Arial, Helvetica, sans-serif"
TEXT_PX, SMALL_PX = 12, 11
_COLUMN_PX = 7.2
"""One column of a label at TEXT_PX, in a wide font."""

_TAG = re.compile(r"<[^>]+>")
_ATTRIBUTE = re.compile(
    r' (?:role|aria-\w+|class|pointer-events|font-family|xmlns(?::\w+)?|version|width|height)="[^"]*"| opacity="1"'
)
"""Attributes of Vega's SVG that the page does not need, or says once for the whole chart. (Its text has no `>`.)"""


class ChartSize(NamedTuple):
    """A screen: its width in pixels, and how long a name beside an axis may be."""

    name: str
    width: int
    name_columns: int
    ticks: int

    @property
    def is_narrow(self) -> bool:
        """Return whether it is a phone."""
        return self.width < 500


WIDE: Final = ChartSize("wide", 880, 30, 8)
NARROW: Final = ChartSize("narrow", 358, 15, 4)
SIZES: Final = (WIDE, NARROW)


def data_of(rows: Sequence[Mapping[str, object]]) -> alt.InlineData:
    """Return inline data of a chart."""
    return alt.InlineData(values=[dict(row) for row in rows])


def layered(*charts: alt.Chart) -> alt.LayerChart:
    """Return charts drawn over one another, the first at the bottom."""
    return alt.LayerChart(layer=list(charts))


def log_marks(low: float, high: float, size: ChartSize) -> list[float]:
    """Return the round values between two: 1, 2 and 5 times the powers of ten; over a long axis only those powers."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    is_long = math.log10(high / low) > (1.2 if size.is_narrow else 3)
    steps = (1,) if is_long else (1, 2, 5)
    marks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [mark for mark in marks if low <= mark <= high]


def share_axis(size: ChartSize) -> alt.Axis:
    """Return the axis of a share from 0 to 1."""
    values = [0, 0.5, 1] if size.is_narrow else [0, 0.25, 0.5, 0.75, 1]
    return alt.Axis(title=None, format="%", values=values, grid=False, labelFlush=True)


def names_axis(labels: Iterable[str], *, grid: bool = False) -> alt.Axis:
    """Return a vertical axis of names with enough space for the longest."""
    longest = max(map(width, labels), default=0)
    return alt.Axis(
        title=None,
        ticks=False,
        domain=False,
        labelPadding=8,
        labelLimit=0,
        minExtent=round(longest * _COLUMN_PX) + 8,
        grid=grid,
    )


def finished(chart: alt.Chart | alt.LayerChart, size: ChartSize, height: int) -> alt.TopLevelMixin:
    """Return the chart fitted into the width of a screen, with the look of all charts."""
    axis = alt.AxisConfig(
        labelColor=INK_2,
        labelFontSize=TEXT_PX,
        titleColor=INK_2,
        titleFontSize=TEXT_PX,
        titleFontWeight="normal",
        gridColor=RULE,
        domainColor=RULE,
        tickColor=RULE,
        labelFlush=False,
    )
    names = alt.AxisConfig(labelColor=INK)
    done: alt.TopLevelMixin = chart.properties(
        width=size.width,
        height=height,
        autosize=alt.AutoSizeParams(type="fit", contains="padding", resize=False),
        padding=4,
    ).configure(
        font=FONT,
        background="transparent",
        aria=False,
        axis=axis,
        axisY=names,
        view=alt.ViewConfig(stroke=None),
        text=alt.MarkConfig(color=INK, fontSize=TEXT_PX),
    )
    return done


def svg_of(chart: alt.TopLevelMixin, description: str, size: ChartSize) -> str:
    """Return the chart as an SVG element that scales with its container."""
    drawn: str = vl_convert.vegalite_to_svg(chart.to_dict(), allowed_base_urls=[])
    plain = _TAG.sub(lambda tag: _ATTRIBUTE.sub("", tag[0]), drawn)
    opening = f'<svg class="{size.name}" role="img" aria-label="{escape(description)}"'
    return opening + plain.removeprefix("<svg")


def time_axis(scope: Scope, size: ChartSize, field: str) -> alt.X:
    """Return the encoding of a time, over the whole scope."""
    axis = alt.Axis(
        title=None,
        format=time_format(scope.start_ms, scope.end_ms),
        tickCount=size.ticks,
        grid=False,
        labelFlush=True,
        labelFontSize=SMALL_PX,
        labelColor=INK_2,
    )
    return alt.X(
        field, scale=alt.Scale(type="utc", domain=[scope.start_ms, scope.end_ms]), axis=axis
    )
