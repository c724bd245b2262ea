"""Charts of the traffic: requests over time by user, the clients that were throttled, and when."""

from __future__ import annotations

from bisect import bisect
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import altair as alt

from pipeline.report.chart_style import (
    FLOW,
    INK,
    OTHERS,
    SHADES,
    STEPS,
    THROTTLED,
    USERS,
    data_of,
    finished,
    layered,
    names_axis,
    share_axis,
    time_axis,
)
from pipeline.report.facts import OTHER
from pipeline.report.headline import most_throttled
from pipeline.report.labels import client_names, labels_of, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pipeline.report.chart_style import ChartSize
    from pipeline.report.facts import ReportFacts, ThrottledBin

MAX_THROTTLED: Final = 12
BAR_PX: Final = 26


def users_by_use(facts: ReportFacts) -> list[str]:
    """Return the names of the traffic, those with most requests first and the rest last."""
    sums: dict[str, float] = {}
    for each in facts.traffic:
        sums[each.name] = sums.get(each.name, 0.0) + each.requests_per_s
    return sorted(sums, key=lambda name: (name == OTHER, -sums[name], name))


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """Return a colour of each name, in the order of `users_by_use`."""
    own = iter(USERS)
    return {name: OTHERS if name == OTHER else next(own, OTHERS) for name in names}


def traffic(facts: ReportFacts, size: ChartSize) -> alt.TopLevelMixin:
    """Return the requests per second of the users with most, stacked, over time."""
    names = users_by_use(facts)
    order = {name: place for place, name in enumerate(names)}
    step_ms = bin_ms(each.at_ms for each in facts.traffic)
    last_ms = max(each.at_ms for each in facts.traffic)
    rows = [
        {
            "at": at_ms,
            "name": str(order[each.name]),
            "order": order[each.name],
            "rate": each.requests_per_s,
        }
        for each in facts.traffic
        for at_ms in (each.at_ms, *([last_ms + step_ms] if each.at_ms == last_ms else []))
    ]
    colours = list(colours_of(names).values())
    areas = (
        alt.Chart(data_of(rows))
        .mark_area(interpolate="step-after", clip=True)
        .encode(
            x=time_axis(facts.scope, size, "at:T"),
            y=alt.Y("rate:Q", stack="zero", axis=alt.Axis(title=None, tickCount=5, format="~s")),
            color=alt.Color(
                "name:N",
                scale=alt.Scale(domain=[str(place) for place in range(len(names))], range=colours),
                legend=None,
            ),
            order=alt.Order("order:Q"),
        )
    )
    return finished(areas, size, 220)


def throttled(facts: ReportFacts, size: ChartSize) -> alt.TopLevelMixin:
    """Return the throttled share of each client that was throttled, largest number of delays first."""
    shown = most_throttled(facts.clients)[:MAX_THROTTLED]
    names = client_names(each.client for each in facts.clients)
    labels = labels_of((names[each.client] for each in shown), size.name_columns)
    rows = [
        {
            "client": labels[names[each.client]],
            "share": each.throttled_share,
            "whole": 1,
            "text": percent(each.throttled_share),
        }
        for each in shown
    ]
    y = alt.Y("client:N", sort=list(labels.values()), axis=names_axis(labels.values()))
    x = alt.X("share:Q", scale=alt.Scale(domain=[0, 1]), axis=share_axis(size))
    base = alt.Chart(data_of(rows)).encode(y=y)
    whole = base.mark_bar(color=FLOW, height=14, opacity=0.28).encode(x=alt.X("whole:Q"))
    part = base.mark_bar(color=THROTTLED, height=14).encode(x=x)
    told = base.mark_text(align="left", dx=5, color=INK, fontWeight="bold").encode(
        x=x, text="text:N"
    )
    return finished(layered(whole, part, told), size, BAR_PX * len(shown) + 40)


def throttled_when(facts: ReportFacts, size: ChartSize) -> alt.TopLevelMixin:
    """Return the throttled share of each throttled client over time, as shades."""
    names = client_names(each.client for each in facts.clients)
    order = [each.client for each in most_throttled(facts.clients)[:MAX_THROTTLED]]
    labels = labels_of((names[each] for each in order), size.name_columns)
    rows = [
        {"client": labels[names[run.client]], "at": run.at_ms, "end": end_ms, "share": run.share}
        for run, end_ms in shade_runs(facts.throttling)
        if run.client in order
    ]
    cells = (
        alt.Chart(data_of(rows))
        .mark_rect(height=16, clip=True)
        .encode(
            x=time_axis(facts.scope, size, "at:T"),
            x2="end:T",
            y=alt.Y("client:N", sort=list(labels.values()), axis=names_axis(labels.values())),
            color=alt.Color(
                "share:Q",
                scale=alt.Scale(type="threshold", domain=list(STEPS), range=list(SHADES)),
                legend=None,
            ),
        )
    )
    return finished(cells, size, 24 * len(order) + 40)


def bin_ms(times_ms: Iterable[int]) -> int:
    """Return the distance of bins."""
    every = sorted(set(times_ms))
    return min((after - before for before, after in pairwise(every)), default=1000)


def shade_runs(bins: Sequence[ThrottledBin]) -> Iterator[tuple[ThrottledBin, int]]:
    """Yield the first bin of each run of bins with one shade, and the end of the run; bins of nothing are left out."""
    step_ms = bin_ms(each.at_ms for each in bins)
    begun: ThrottledBin | None = None
    end_ms = 0
    for each in sorted(bins, key=lambda each: (each.client, each.at_ms)):
        if begun is not None and (each.client, each.at_ms, _shade(each)) != (
            begun.client,
            end_ms,
            _shade(begun),
        ):
            yield begun, end_ms
            begun = None
        if each.share > 0:
            begun, end_ms = begun or each, each.at_ms + step_ms
    if begun is not None:
        yield begun, end_ms


def _shade(each: ThrottledBin) -> int:
    return bisect(STEPS, each.share) if each.share > 0 else -1
