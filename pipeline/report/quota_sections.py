"""The sections on quotas: what each entity needs, and what other quotas would do."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pipeline.report import quota_charts
from pipeline.report.chart_style import BOUND, FLOW, INK_2, THROTTLED
from pipeline.report.facts import CAPTURE, ROWS
from pipeline.report.headline import curve_of, maybe_knee
from pipeline.report.labels import client_names, figure, percent
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

_UNDER_A_QUOTA = (
    " Rows that were recorded under a quota do not tell a client that catches up from one that is late from then on. "
    "It is taken for late, so more throttles may be predicted at factor 1 than there were. A capture tells it."
)


def needs_section(facts: ReportFacts) -> Iterator[str]:
    """Yield the section of quota and need."""
    if not facts.needs:
        return
    shown = quota_charts.needs_shown(facts)
    over = [each for each in facts.needs if each.quota is not None and each.need > each.quota]
    limited = sum(each.quota is not None for each in facts.needs)
    title = (
        f"Quota against need: {len(over)} of {limited} quotas are below the need"
        if limited
        else "The need of each client; there is no quota yet"
    )
    yield section_of(
        title,
        "Requests per second on one Sluice; logarithmic. The need is the smallest quota that throttles at most 1 % of "
        "the requests, by the enforcement in force. A throttled client needs more than it could send: its need is an "
        "estimate, at most twice what it sent.",
        figure_of(
            partial(quota_charts.needs, facts),
            "Mean rate, need, quota and recommended quota of each entity",
        ),
        key_of(
            (
                ("small", FLOW, "mean of the busy seconds"),
                ("large", FLOW, "need"),
                ("tick", BOUND, "quota"),
                ("tick", THROTTLED, "quota below the need"),
                ("diamond", BOUND, "recommended"),
            )
        ),
        table_of(
            "The figures, in requests/s",
            [
                TableColumn("entity", "name"),
                *map(TableColumn, ("mean", "need", "quota", "recommended")),
            ],
            [
                (
                    each.name,
                    figure(each.mean),
                    figure(each.need),
                    _or_dash(each.quota),
                    _or_dash(each.recommended),
                )
                for each in shown
            ],
        ),
    )


def _or_dash(value: float | None) -> str:
    return "\u2013" if value is None else figure(value)


def sweep_section(facts: ReportFacts) -> Iterator[str]:
    """Yield the section of the predictions."""
    points = curve_of(facts.sweep)
    if not points:
        return
    knee = maybe_knee(points)
    names = client_names(each.client for each in facts.sweep)
    had_quota = any(each.quota_rate is not None for each in facts.clients)
    curve = (
        figure_of(
            partial(quota_charts.curve, facts),
            "Throttled share of all requests by factor of the quotas",
        ),
        key_of(
            (
                ("line", THROTTLED, "throttled share of all requests"),
                ("dash", INK_2, "factor 1"),
            )
        ),
        table_of(
            "The figures",
            list(map(TableColumn, ("factor", "throttled", "requests that pass in the time"))),
            [
                (figure(each.factor), percent(each.throttled_share), percent(each.accepted_share))
                for each in points
            ],
        ),
    )
    title = (
        f"What if: the knee is at {quota_charts.TIMES} {figure(knee.factor)}"
        if knee
        else "What if the quotas were others"
    )
    yield section_of(
        title,
        f"Predicted from {facts.sweep_from or ROWS} by a simulation in which a throttled client sends later, "
        "not less. Left of the knee each step less costs much; right of it more quota gains little."
        + ("" if facts.sweep_from == CAPTURE or not had_quota else _UNDER_A_QUOTA),
        *(curve if len(points) > 1 else ()),
        "<h3>By client: percent of its requests throttled</h3>",
        figure_of(
            partial(quota_charts.heat, facts),
            "Throttled share of each client at each factor of the quotas",
        ),
        key_of(SHARE_KEY),
        table_of(
            "The figures of the heat map",
            [
                CLIENT_COLUMN,
                *(TableColumn(f"{quota_charts.TIMES} {figure(each.factor)}") for each in points),
            ],
            [
                (
                    names[client],
                    *(
                        percent(each.throttled_share)
                        for each in sorted(
                            (cell for cell in facts.sweep if cell.client == client),
                            key=lambda cell: cell.factor,
                        )
                    ),
                )
                for client in quota_charts.heat_clients(facts.sweep)
            ],
        ),
    )
