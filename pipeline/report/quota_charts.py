"""Charts of quotas: what each entity needs beside what it may, and what other quotas would do."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING, Final

import altair as alt

from pipeline.report.chart_style import (
    BOUND,
    FLOW,
    INK_2,
    SHADE_INKS,
    SHADES,
    SMALL_PX,
    STEPS,
    THROTTLED,
    data_of,
    finished,
    layered,
    log_marks,
    names_axis,
)
from pipeline.report.headline import curve_of, maybe_knee
from pipeline.report.labels import client_names, figure, labels_of, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.report.chart_style import ChartSize
    from pipeline.report.facts import ClientName, EntityNeed, ReportFacts, SweepCell

MAX_NEEDS: Final = 16
MAX_HEAT: Final = 14
ROW_PX: Final = 28
FACTOR_MARKS: Final = (0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8)
NARROW_MARKS: Final = (0.125, 0.25, 0.5, 1, 2, 4, 8)
TIMES: Final = "\u00d7"
LEAST_RATE: Final = 0.01
"""Requests per second; smaller ones are drawn there, because a logarithmic axis has no zero."""


def needs_shown(facts: ReportFacts) -> list[EntityNeed]:
    """Return the entities of the chart: those over their quota first, then by need."""

    def over(need: EntityNeed) -> float:
        return need.need / need.quota if need.quota else 0.0

    every = sorted(facts.needs, key=lambda need: (-(over(need) > 1), -need.need, need.name))
    return every[:MAX_NEEDS]


def needs(facts: ReportFacts, size: ChartSize) -> alt.TopLevelMixin:
    """Return a dumbbell for each entity: its mean rate and its need, its present quota and the recommended one."""
    shown = needs_shown(facts)
    labels = labels_of((each.name for each in shown), size.name_columns)
    rows = [
        {
            "name": labels[each.name],
            "mean": max(each.mean, LEAST_RATE),
            "need": max(each.need, LEAST_RATE),
            "quota": each.quota,
            "recommended": each.recommended,
            "tight": each.quota is not None and each.need > each.quota,
        }
        for each in shown
    ]
    every = [
        max(value, LEAST_RATE)
        for each in shown
        for value in (each.mean, each.need, each.quota, each.recommended)
        if value is not None
    ]
    low, high = min(every) * 0.8, max(every) * 1.25
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    ticks = alt.Axis(
        title=None, format="~s", values=log_marks(low, high, size), labelOverlap="greedy"
    )

    def x(field: str) -> alt.X:
        return alt.X(field, scale=scale, axis=ticks)

    base = alt.Chart(data_of(rows)).encode(
        y=alt.Y("name:N", sort=list(labels.values()), axis=names_axis(labels.values(), grid=True))
    )
    span = base.mark_rule(color=FLOW, strokeWidth=5, opacity=0.45).encode(
        x=x("mean:Q"), x2="need:Q"
    )
    mean = base.mark_point(color=FLOW, filled=True, size=46, opacity=1).encode(x=x("mean:Q"))
    need = base.mark_point(color=FLOW, filled=True, size=110, opacity=1).encode(x=x("need:Q"))
    present = (
        base.transform_filter("datum.quota != null")
        .mark_tick(thickness=3, size=20, opacity=1)
        .encode(
            x=x("quota:Q"),
            color=alt.condition("datum.tight", alt.value(THROTTLED), alt.value(BOUND)),
        )
    )
    recommended = (
        base.transform_filter("datum.recommended != null")
        .mark_point(
            shape="diamond", color=BOUND, size=110, strokeWidth=1.8, opacity=1, filled=False
        )
        .encode(x=x("recommended:Q"))
    )
    return finished(layered(span, mean, need, present, recommended), size, ROW_PX * len(shown) + 40)


def curve(facts: ReportFacts, size: ChartSize) -> alt.TopLevelMixin:
    """Return the throttled share of all requests by factor, with the knee and the present quotas marked."""
    points = curve_of(facts.sweep)
    rows = [each._asdict() for each in points]
    knee = maybe_knee(points)
    first, last = points[0].factor, points[-1].factor
    marks = NARROW_MARKS if size.is_narrow else FACTOR_MARKS
    ticks = [each for each in marks if first <= each <= last]
    x = alt.X(
        "factor:Q",
        scale=alt.Scale(type="log", base=2, domain=[first, last], nice=False),
        axis=alt.Axis(
            title=sweep_title(facts), grid=False, values=ticks, format="~g", labelFlush=True
        ),
    )
    top = max(0.01, *(each.throttled_share for each in points)) * 1.15
    y = alt.Y(
        "throttled_share:Q",
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(title=None, format="~%", tickCount=5),
    )
    base = alt.Chart(data_of(rows)).encode(x=x, y=y)
    parts = [
        base.mark_area(color=THROTTLED, opacity=0.18),
        base.mark_line(
            color=THROTTLED,
            strokeWidth=2.5,
            point=alt.OverlayMarkDef(filled=True, size=36, color=THROTTLED),
        ),
        alt.Chart(data_of([{"factor": 1}])).mark_rule(color=INK_2, strokeDash=[3, 3]).encode(x=x),
    ]
    if knee is not None:
        # Right of the knee the curve is lower: the words stand there, or above it if there is no room.
        has_room = log2(knee.factor / first) < log2(last / first) * (0.6 if size.is_narrow else 0.7)
        told = {
            "factor": knee.factor if has_room else last,
            "throttled_share": knee.throttled_share,
        }
        words = f"knee: {TIMES} {figure(knee.factor)}"
        words += "" if size.is_narrow else f", {percent(knee.throttled_share)} throttled"
        parts += [
            alt.Chart(data_of([knee._asdict()]))
            .mark_point(color=BOUND, size=190, strokeWidth=2, filled=False, opacity=1)
            .encode(x=x, y=y),
            alt.Chart(data_of([told]))
            .mark_text(
                text=words,
                align="left" if has_room else "right",
                dx=12 if has_room else 0,
                dy=-14 if has_room else -26,
                fontWeight="bold",
            )
            .encode(x=x, y=y),
        ]
    return finished(layered(*parts), size, 240)


def heat(facts: ReportFacts, size: ChartSize) -> alt.TopLevelMixin:
    """Return the throttled share of each client at each factor: shades with figures; a cell of nothing is empty."""
    factors = factors_shown({each.factor for each in facts.sweep}, 6 if size.is_narrow else 13)
    order = heat_clients(facts.sweep)
    names = client_names(each.client for each in facts.sweep)
    labels = labels_of((names[each] for each in order), size.name_columns)
    rows = [
        {
            "client": labels[names[each.client]],
            "factor": figure(each.factor),
            "share": each.throttled_share,
            "text": "<1" if each.throttled_share < 0.01 else f"{each.throttled_share * 100:.0f}",
        }
        for each in facts.sweep
        if each.client in order and each.factor in factors
    ]
    x = alt.X(
        "factor:O",
        sort=[figure(each) for each in factors],
        axis=alt.Axis(
            title=sweep_title(facts),
            labelAngle=0,
            orient="top",
            ticks=False,
            domain=False,
        ),
    )
    y = alt.Y("client:N", sort=list(labels.values()), axis=names_axis(labels.values()))
    base = alt.Chart(data_of(rows)).encode(x=x, y=y)
    some = base.transform_filter("datum.share > 0")
    cells = some.mark_rect(cornerRadius=2).encode(color=_shade(SHADES))
    figures = some.mark_text(fontSize=SMALL_PX).encode(text="text:N", color=_shade(SHADE_INKS))
    none = base.transform_filter("datum.share == 0").mark_text(text="·", color=INK_2)
    return finished(
        layered(cells, figures, none).resolve_scale(color="independent"), size, 26 * len(order) + 50
    )


def sweep_title(facts: ReportFacts) -> str:
    """Return the title of the axis of factors."""
    return f"quotas, {TIMES} {facts.sweep_of or 'the candidate'}"


def heat_clients(cells: Sequence[SweepCell]) -> list[ClientName]:
    """Return the clients of the heat map, those with most throttled requests over all factors first."""
    sums: dict[ClientName, int] = {}
    for cell in cells:
        sums[cell.client] = sums.get(cell.client, 0) + cell.throttled
    return sorted(sums, key=lambda client: (-sums[client], client))[:MAX_HEAT]


def factors_shown(factors: set[float], most: int) -> list[float]:
    """Return at most so many of the factors, evenly chosen, with both ends and the factor 1."""
    every = sorted(factors)
    if len(every) <= most:
        return every
    step = (len(every) - 1) / (most - 1)
    chosen = [every[round(place * step)] for place in range(most)]
    if 1.0 in factors and 1.0 not in chosen:
        inner = range(1, most - 1)
        chosen[min(inner, key=lambda place: abs(chosen[place] - 1))] = 1.0
    return chosen


def _shade(colours: Sequence[str]) -> alt.Color:
    scale = alt.Scale(type="threshold", domain=list(STEPS), range=list(colours))
    return alt.Color("share:Q", scale=scale, legend=None)
