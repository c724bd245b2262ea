"""The page of a report: one HTML file with everything in it.

Rules:
- It loads nothing: no script, no font, no other file. A browser shows it the same in ten years.
- It opens with the finding; then come the figures that everyone asks for, the charts, and what is missing in the data.
- One SVG serves light, dark and print; a phone gets drawings of its own.
"""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from pipeline.report.headline import caution, findings, headline
from pipeline.report.labels import count, duration, percent, period
from pipeline.report.markup import name_of
from pipeline.report.quota_sections import needs_section, sweep_section
from pipeline.report.traffic_sections import throttled_section, traffic_section
from pipeline.report.wait_sections import (
    pools_section,
    slowest_section,
    stages_section,
    waits_section,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.report.facts import ReportFacts


def html_of(facts: ReportFacts) -> str:
    """Return the page."""
    style = (files("pipeline.report") / "page.css").read_text("utf-8")
    scope = facts.scope
    also = "".join(f"<li>{escape(each)}</li>" for each in findings(facts))
    careful = caution(facts)
    title = escape(headline(facts))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sluice: {title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,"><style>{style}</style></head><body><main>
<p class="about"><b>Sluice usage report</b> · {escape(period(scope.start_ms, scope.end_ms))}</p>
<h1>{title}</h1>
{f'<ul class="findings">{also}</ul>' if also else ""}
{f'<p class="caution">{escape(careful)}</p>' if careful else ""}
<dl class="tiles">{"".join(_tiles(facts))}</dl>
{"".join(sections(facts))}
{_quality(facts)}
<footer>From {name_of(scope.source)}, written {escape(scope.written_at)}.</footer></main></body></html>
"""


def _tiles(facts: ReportFacts) -> Iterator[str]:
    scope = facts.scope
    share = scope.throttled / scope.charged if scope.charged else 0.0
    tiles = (
        ("requests", count(scope.requests)),
        ("users and client ids", count(scope.clients)),
        ("instances of Sluice", count(scope.instances)),
        ("throttled", percent(min(1.0, share))),
        (
            "longest wait or pause",
            duration(scope.throttle_ms_max) if scope.throttle_ms_max else "none",
        ),
    )
    return (f"<div><dt>{words}</dt><dd>{escape(value)}</dd></div>" for words, value in tiles)


def _quality(facts: ReportFacts) -> str:
    quality = facts.quality
    kind, words = ("ok", "complete") if quality.is_clean else ("warn", "not complete")
    aside = ", ".join(f"{count(n)} {reason}" for reason, n in sorted(quality.quarantined.items()))
    lines = (
        ("rows read", ", ".join(f"{count(n)} {family}" for family, n in quality.rows.items())),
        ("lost rows (missing in seq, not set aside)", count(quality.lost)),
        ("lines set aside", aside or "0"),
        ("duplicates removed", "" if quality.duplicates is None else count(quality.duplicates)),
        ("rows that instances could not write", count(quality.rows_dropped)),
        ("spans dropped", count(quality.spans_dropped)),
    )
    listed = "".join(f"<dt>{term}</dt><dd>{escape(value)}</dd>" for term, value in lines if value)
    return (
        f'<section><h2>Data quality: <span class="verdict {kind}">{words}</span></h2>'
        f'<dl class="quality">{listed}</dl></section>'
    )


def sections(facts: ReportFacts) -> Iterator[str]:
    """Yield the sections that have something to show, in the order of the page."""
    yield from traffic_section(facts)
    yield from throttled_section(facts)
    yield from needs_section(facts)
    yield from sweep_section(facts)
    yield from waits_section(facts)
    yield from stages_section(facts)
    yield from slowest_section(facts)
    yield from pools_section(facts)
