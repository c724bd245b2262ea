"""The time axis of charts, in UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt

from pipeline.report.chart_style import INK_2, SMALL_PX
from pipeline.report.labels import time_format

if TYPE_CHECKING:
    from pipeline.report.chart_style import ChartSize
    from pipeline.report.facts import Scope


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
