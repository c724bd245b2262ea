"""The sections on traffic and on the clients that were throttled."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pipeline.report import traffic_charts
from pipeline.report.chart_style import FLOW, THROTTLED
from pipeline.report.facts import OTHER
from pipeline.report.headline import most_throttled
from pipeline.report.labels import client_names, count, duration, figure, percent, spoken
from pipeline.report.markup import (
    CLIENT_COLUMN,
    SHARE_KEY,
    TableColumn,
    figure_of,
    key_of,
    section_of,
    table_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.report.facts import ReportFacts


def traffic_section(facts: ReportFacts) -> Iterator[str]:
    """Yield the section of the traffic."""
    names = traffic_charts.users_by_use(facts)
    sums = dict.fromkeys(names, 0.0)
    for each in facts.traffic:
        sums[each.name] += each.requests_per_s
    bins = max(1, len({each.at_ms for each in facts.traffic}))
    total = sum(sums.values())
    if not total:
        return
    most = max(
        (each for each in names if each != OTHER), key=lambda name: sums[name], default=OTHER
    )
    colours = traffic_charts.colours_of(names)
    yield section_of(
        f"Traffic: {figure(total / bins)} requests/s on average; {spoken(most)} sends {percent(sums[most] / total)}",
        "Requests per second, stacked, those with most at the bottom. Times are UTC.",
        figure_of(
            partial(traffic_charts.traffic, facts),
            "Requests per second over time, by those with most requests",
        ),
        key_of(("area", colours[name], spoken(name)) for name in names),
        table_of(
            "The figures",
            [
                TableColumn("name", "name"),
                TableColumn("requests/s on average"),
                TableColumn("share"),
            ],
            [(name, figure(sums[name] / bins), percent(sums[name] / total)) for name in names],
        ),
    )


def throttled_section(facts: ReportFacts) -> Iterator[str]:
    """Yield the section of the throttled clients."""
    hit = most_throttled(facts.clients)
    names = client_names(each.client for each in facts.clients)
    if not facts.clients:
        return
    if not hit:
        yield section_of(
            "No client was notably throttled", "A client counts from 1 % of its requests on."
        )
        return
    shown = hit[: traffic_charts.MAX_THROTTLED]
    when = (
        "<h3>When</h3>",
        figure_of(
            partial(traffic_charts.throttled_when, facts), "Throttled share over time, by client"
        ),
        key_of(SHARE_KEY),
    )
    one = len(hit) == 1
    more = f"; the {len(shown)} with most delays are shown" if len(hit) > len(shown) else ""
    yield section_of(
        f"Throttled: {spoken(names[hit[0].client]) if one else f'{len(hit)} clients'}{more}",
        "The share of each client's requests that a quota delayed; the client with most delayed requests comes first.",
        figure_of(
            partial(traffic_charts.throttled, facts), "Throttled share of each throttled client"
        ),
        key_of((("area", THROTTLED, "throttled"), ("faint", FLOW, "not throttled"))),
        table_of(
            "Delays, and the limits that caused them",
            [
                CLIENT_COLUMN,
                TableColumn("requests"),
                TableColumn("throttled"),
                TableColumn("mean delay"),
                TableColumn("longest wait or pause"),
                TableColumn("limit", "text"),
            ],
            [
                (
                    names[each.client],
                    count(each.requests),
                    percent(each.throttled_share),
                    duration(each.throttle_ms / each.throttled),
                    duration(each.throttle_ms_max),
                    _limit(each.limit, each.quota_rate, each.quota_entity),
                )
                for each in shown
            ],
            folded=False,
        ),
        *(when if facts.throttling else ()),
    )


def _limit(limit: str | None, rate: float | None, entity: str | None) -> str:
    whose = f" of {spoken(entity)}" if entity else ""
    if limit not in (None, "request_rate"):
        return f"{limit}{whose}"
    return (
        f"request_rate {figure(rate)}/s{whose}"
        if rate is not None
        else "the broker's, or one that has changed since"
    )
