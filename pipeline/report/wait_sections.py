"""The sections on waiting: throttle and purgatory latency, where time went, slow requests, memory pools."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pipeline.report import wait_charts
from pipeline.report.chart_style import FLOW, OTHERS, STAGE_COLOURS, THROTTLED
from pipeline.report.labels import client_names, count, duration, percent, spoken
from pipeline.report.markup import (
    CLIENT_COLUMN,
    TableColumn,
    figure_of,
    key_of,
    section_of,
    table_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.report.facts import ReportFacts

_HARDLY: Final = 0.01
"""Of a pool; less is not worth a chart."""
_WAIT_KEY: Final = (("small", "p50"), ("large", "p99"), ("tick", "longest"))
_WAITS: Final = {
    "throttle": (
        "Throttle latency",
        "Requests that quotas delayed at all: their wait before they were forwarded and the pause after them, together",
    ),
    "purgatory": (
        "Purgatory latency",
        "Requests that a policy held, before they were forwarded to the broker",
    ),
}
_STAGE_WORDS: Final = {
    "upstream": "the broker had it",
    "throttle": "delayed by a quota",
    "purgatory": "held by a policy",
    "memory": "waited for memory",
    "receive": "the client was still sending it",
}


def waits_section(facts: ReportFacts) -> Iterator[str]:
    """Yield a section each of throttle and purgatory latency."""
    for stage, (title, note) in _WAITS.items():
        parts = []
        for by, words in (("client", "By client"), ("api", "By API")):
            shown = wait_charts.waits_shown(facts.waits, stage, by)
            if not shown:
                continue
            columns = [
                TableColumn(by, "name"),
                *map(TableColumn, ("requests", "p50", "p99", "longest")),
            ]
            cells = [
                (
                    w.name,
                    count(w.requests),
                    duration(w.p50_ms),
                    duration(w.p99_ms),
                    duration(w.max_ms),
                )
                for w in shown
            ]
            parts += [
                f"<h3>{words}</h3>",
                figure_of(
                    partial(wait_charts.waits, facts, stage=stage, by=by),
                    f"{title}: p50, p99 and the longest, by {by}",
                ),
                table_of("The figures", columns, cells),
            ]
        if not parts:
            continue
        longest = max(
            (each for each in facts.waits if each.stage == stage), key=lambda each: each.p99_ms
        )
        yield section_of(
            f"{title}: p99 up to {duration(longest.p99_ms)} ({spoken(longest.name)})",
            f"{note}; logarithmic. From histograms whose buckets are 9 % wide.",
            key_of((shape, STAGE_COLOURS[stage], words) for shape, words in _WAIT_KEY),
            *parts,
        )


def stages_section(facts: ReportFacts) -> Iterator[str]:
    """Yield the section of where time went."""
    shares = wait_charts.stage_shares(facts.stages)
    if not shares:
        return
    sums = dict.fromkeys(STAGE_COLOURS, 0.0)
    for each in facts.stages:
        sums[each.stage] += each.total_ms
    total = sum(sums.values())
    yield section_of(
        f"Where time went: {percent(sums['upstream'] / total)} at the brokers,"
        f" {percent(sums['throttle'] / total)} delayed by quotas",
        "The time of all requests of an API and the pauses after them, by stage; beside each name its share of all "
        "time. A Fetch waits at the broker by design.",
        figure_of(
            partial(wait_charts.where_time_went, facts),
            "Share of each stage in the time of each API's requests",
        ),
        key_of(
            ("area", colour, _STAGE_WORDS[stage])
            for stage, colour in STAGE_COLOURS.items()
            if sums[stage]
        ),
        table_of(
            "The figures",
            [TableColumn("API", "name"), *(TableColumn(stage) for stage in STAGE_COLOURS)],
            [
                (api, *(percent(own[stage]) for stage in STAGE_COLOURS))
                for api, own in shares.items()
            ],
        ),
    )


def slowest_section(facts: ReportFacts) -> Iterator[str]:
    """Yield the section of traced requests."""
    if not facts.slowest:
        return
    names = client_names(each.client for each in facts.slowest)
    stages = ("quota", "purgatory", "memory", "upstream", "pause after")
    columns = [
        CLIENT_COLUMN,
        TableColumn("API", "text"),
        *map(TableColumn, ("in all", *stages)),
        TableColumn("trace", "code"),
    ]
    yield section_of(
        "The slowest requests that were traced",
        "In all: from the first byte of a request to its reply; the pause for a quota comes after it. "
        "Look a trace up by its id where your traces are kept.",
        table_of(
            "Slowest first",
            columns,
            [
                (
                    names[each.client],
                    each.api,
                    *(
                        duration(ms) if ms else "\u2013"
                        for ms in (
                            each.total_ms,
                            each.throttle_ms,
                            each.purgatory_ms,
                            each.memory_ms,
                            each.upstream_ms,
                            each.pause_ms,
                        )
                    ),
                    each.trace_id,
                )
                for each in facts.slowest
            ],
            folded=False,
        ),
    )


def pools_section(facts: ReportFacts) -> Iterator[str]:
    """Yield the section of the memory pools."""
    if not facts.pools:
        return
    most = max(each.used_share for each in facts.pools)
    empty_ms = sum(each.depleted_ms for each in facts.pools)
    told = f"empty for {duration(empty_ms)}" if empty_ms else "never empty"
    if most < _HARDLY and not empty_ms:
        yield section_of(
            "Memory pools: less than 1 % in use, never empty",
            "The largest use of all instances.",
        )
        return
    yield section_of(
        f"Memory pools: at most {percent(most)} in use, {told}",
        "The largest use of all instances. "
        "A mark at the top means that a pool was empty and clients waited.",
        figure_of(partial(wait_charts.pools, facts), "Use of both memory pools over time"),
        key_of(
            (
                ("line", FLOW, "requests"),
                ("line", OTHERS, "replies"),
                *([("tick", THROTTLED, "empty")] if empty_ms else []),
            )
        ),
    )
