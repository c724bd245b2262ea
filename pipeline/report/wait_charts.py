"""Charts of waiting: how long requests waited for a quota or a policy, where all time went, and the memory pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import altair as alt

from pipeline.report.chart_style import (
    FLOW,
    GROUND,
    OTHERS,
    SMALL_PX,
    STAGE_COLOURS,
    THROTTLED,
    data_of,
    finished,
    layered,
    log_marks,
    names_axis,
    share_axis,
    time_axis,
)
from pipeline.report.labels import duration, labels_of, percent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.report.chart_style import ChartSize
    from pipeline.report.facts import ReportFacts, StageTime, Wait

MAX_WAITS: Final = 10
MAX_APIS: Final = 8
NOTABLE: Final = 0.01
"""The share of all time from which on an API has a bar."""
LEAST_MS: Final = 0.01
_DURATIONS: Final = (
    "datum.value >= 60000 ? datum.value / 60000 + ' min' : datum.value >= 1000 ? datum.value / 1000 + ' s' :"
    " datum.value >= 1 ? datum.value + ' ms' : round(datum.value * 1000) + ' µs'"
)


def waits_shown(waits: Iterable[Wait], stage: str, by: str) -> list[Wait]:
    """Return those of one stage, the longest p99 first."""
    own = [each for each in waits if each.stage == stage and each.by == by]
    return sorted(own, key=lambda each: (-each.p99_ms, each.name))[:MAX_WAITS]


def waits(facts: ReportFacts, size: ChartSize, stage: str, by: str) -> alt.TopLevelMixin:
    """Return the p50, the p99 and the longest of each client or API in one stage, on a logarithmic axis."""
    shown = waits_shown(facts.waits, stage, by)
    labels = labels_of((each.name for each in shown), size.name_columns)
    rows = [
        {
            "name": labels[each.name],
            "p50": max(each.p50_ms, LEAST_MS),
            "p99": max(each.p99_ms, LEAST_MS),
            "max": max(each.max_ms, LEAST_MS),
            "text": duration(each.p99_ms),
        }
        for each in shown
    ]
    low = max(LEAST_MS, min(each.p50_ms for each in shown))
    high = max(LEAST_MS, *(each.max_ms for each in shown))
    scale = alt.Scale(type="log", domain=[low * 0.7, high * 2.2], nice=False)
    axis = alt.Axis(
        title=None,
        labelExpr=_DURATIONS,
        values=log_marks(low * 0.7, high * 2.2, size),
        labelOverlap="greedy",
    )

    def x(field: str) -> alt.X:
        return alt.X(field, scale=scale, axis=axis)

    colour = STAGE_COLOURS[stage]
    base = alt.Chart(data_of(rows)).encode(
        y=alt.Y("name:N", sort=list(labels.values()), axis=names_axis(labels.values(), grid=True))
    )
    return finished(
        layered(
            base.mark_rule(color=colour, strokeWidth=1.5, strokeDash=[2, 2]).encode(
                x=x("p99:Q"), x2="max:Q"
            ),
            base.mark_rule(color=colour, strokeWidth=5, opacity=0.45).encode(
                x=x("p50:Q"), x2="p99:Q"
            ),
            base.mark_point(color=colour, filled=True, size=46, opacity=1).encode(x=x("p50:Q")),
            base.mark_point(color=colour, filled=True, size=110, opacity=1).encode(x=x("p99:Q")),
            base.mark_tick(color=colour, thickness=1.5, size=9, opacity=1).encode(x=x("max:Q")),
            base.mark_text(dy=-10, fontSize=SMALL_PX).encode(x=x("p99:Q"), text="text:N"),
        ),
        size,
        34 * len(shown) + 36,
    )


def stage_shares(stages: Iterable[StageTime]) -> dict[str, dict[str, float]]:
    """Return the share of each stage in the time of the requests of an API; the API with most time first."""
    sums: dict[str, dict[str, float]] = {}
    for each in stages:
        own = sums.setdefault(each.api, dict.fromkeys(STAGE_COLOURS, 0.0))
        own[each.stage] += each.total_ms
    order = sorted(sums, key=lambda api: (-sum(sums[api].values()), api))
    return {
        api: {stage: ms / total for stage, ms in sums[api].items()}
        for api in order
        if (total := sum(sums[api].values())) > 0
    }


def apis_shown(stages: Iterable[StageTime]) -> dict[str, float]:
    """Return the APIs that took a notable part of all time, and that part; at least one, at most MAX_APIS."""
    sums: dict[str, float] = {}
    for each in stages:
        sums[each.api] = sums.get(each.api, 0.0) + each.total_ms
    total = sum(sums.values()) or 1.0
    order = sorted(sums, key=lambda api: (-sums[api], api))[:MAX_APIS]
    return {
        api: sums[api] / total for api in order if sums[api] >= NOTABLE * total or api == order[0]
    }


def where_time_went(facts: ReportFacts, size: ChartSize) -> alt.TopLevelMixin:
    """Return the share of each stage in the time of each API's requests, as bars of equal length."""
    shown = apis_shown(facts.stages)
    shares = {api: own for api, own in stage_shares(facts.stages).items() if api in shown}
    named = {api: f"{api}, {percent(shown[api])}" for api in shares}
    unique = labels_of(named.values(), size.name_columns + 6)
    labels = {api: unique[name] for api, name in named.items()}
    rows = []
    for api, own in shares.items():
        begin = 0.0
        for stage, share in own.items():
            text = percent(share) if share >= (0.16 if size.is_narrow else 0.07) else ""
            rows.append(
                {
                    "api": labels[api],
                    "stage": stage,
                    "begin": begin,
                    "end": begin + share,
                    "middle": begin + share / 2,
                    "text": text,
                }
            )
            begin += share
    base = alt.Chart(data_of(rows)).encode(
        y=alt.Y("api:N", sort=list(labels.values()), axis=names_axis(labels.values()))
    )
    scale = alt.Scale(domain=[0, 1])
    axis = share_axis(size)
    bars = base.mark_bar(height=18, stroke=GROUND, strokeWidth=1).encode(
        x=alt.X("begin:Q", scale=scale, axis=axis),
        x2="end:Q",
        color=alt.Color(
            "stage:N",
            scale=alt.Scale(domain=list(STAGE_COLOURS), range=list(STAGE_COLOURS.values())),
            legend=None,
        ),
    )
    told = base.mark_text(color=GROUND, fontSize=SMALL_PX, fontWeight="bold").encode(
        x=alt.X("middle:Q", scale=scale, axis=axis), text="text:N"
    )
    return finished(layered(bars, told), size, 28 * len(shares) + 36)


def pools(facts: ReportFacts, size: ChartSize) -> alt.TopLevelMixin:
    """Return how full both memory pools were over time; times at which one was empty are marked."""
    rows = [each._asdict() for each in facts.pools]
    top = max(0.05, *(each.used_share for each in facts.pools)) * 1.15
    y = alt.Y(
        "used_share:Q",
        scale=alt.Scale(domain=[0, min(1.0, top)], nice=False),
        axis=alt.Axis(title=None, format="~%", tickCount=4),
    )
    base = alt.Chart(data_of(rows)).encode(x=time_axis(facts.scope, size, "at_ms:T"), y=y)
    colours = alt.Color(
        "pool:N", scale=alt.Scale(domain=["requests", "replies"], range=[FLOW, OTHERS]), legend=None
    )
    lines = base.mark_line(strokeWidth=2, interpolate="step-after").encode(color=colours)
    empty = (
        base.transform_filter("datum.depleted_ms > 0")
        .mark_tick(color=THROTTLED, thickness=2, size=14, orient="vertical", opacity=1)
        .encode(y=alt.value(0))
    )
    return finished(layered(lines, empty), size, 150)
