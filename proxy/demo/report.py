"""The last lines of a run, and its page: one HTML file to keep or to send, which loads nothing."""

from __future__ import annotations

import os
import platform
import time
from html import escape
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING

from proxy.demo.checks import LIMIT_PER_S, Phase, summary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from proxy.demo.checks import Evidence, Finding

MARKS = {True: "ok", False: "FAIL", None: "??"}
CLASSES = {True: "ok", False: "bad", None: "unsure"}
COLUMNS = ("beside it", "polite p50 ms", "polite p99 ms", "noisy requests/s")
NAMES = {
    Phase.ALONE: "nothing",
    Phase.NO_QUOTA: "noisy",
    Phase.QUOTA: f"noisy, quota {LIMIT_PER_S:.0f}/s",
}
PHASES = """<section><h2>A noisy neighbour, and a quota</h2>
<p>A polite client sends 200 records a second. Beside it runs nothing, a noisy client that sends as much as it can,
or the same with a quota of {limit:.0f} requests a second. The three take turns, {rounds} rounds; the figures are
medians.</p>{table}</section>"""
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A run of sluice demo</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<style>{style}</style></head><body><main>
<h1>A run of <code>sluice demo</code></h1><p class="note">{about}</p>
<p class="verdict {kind}">{verdict}</p>{phases}
<section><h2>The verdict</h2><p class="note">All findings come from the clients' own books, never from Sluice.</p>
<table><tr><th>result</th><th>what must hold</th><th>what was observed</th></tr>{findings}</table></section>
<section><h2>Run it again</h2><pre>make demo</pre></section></main></body></html>
"""


def lines_of(evidence: Evidence, findings: Sequence[Finding]) -> list[str]:
    """Return the figures of each phase and the verdict as lines of text."""
    rows = [f"{row[0]:<20}" + "".join(f"{cell:>18}" for cell in row[1:]) for row in _rows(evidence)]
    found = [f"{MARKS[each.holds]:<4} {each.name}: {each.detail}" for each in findings]
    return ["", *rows, "", *found, summary(findings)]


def write_page(path: Path, evidence: Evidence, findings: Sequence[Finding]) -> None:
    """Write the page in place of an older one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html_of(evidence, findings), "utf-8")


def html_of(evidence: Evidence, findings: Sequence[Finding]) -> str:
    """Return the page."""
    holds = {finding.holds for finding in findings}
    about = (
        time.strftime("%d %B %Y, %H:%M"),
        f"Sluice {version('kafka-sluice')}",
        f"Python {platform.python_version()}",
        f"{platform.system()}, {os.cpu_count()} CPUs",
    )
    return PAGE.format(
        style=(files("proxy.demo") / "page.css").read_text("utf-8"),
        about=escape(" · ".join(about)),
        kind="bad" if False in holds else "unsure" if None in holds else "ok",
        verdict=escape(summary(findings)),
        phases=_phases(evidence),
        findings="".join(
            f'<tr><td class="{CLASSES[each.holds]}">{MARKS[each.holds]}</td>'
            f"<td>{escape(each.name)}</td><td>{escape(each.detail)}</td></tr>"
            for each in findings
        ),
    )


def _rows(evidence: Evidence) -> Sequence[tuple[str, ...]]:
    """Return the heading and a row for each phase; nothing when there were no phases."""
    medians = evidence.maybe_medians()
    if medians is None:
        return []
    figures = zip(NAMES.values(), medians, strict=True)
    return [COLUMNS] + [
        (name, f"{each.p50_ms:.1f}", f"{each.p99_ms:.1f}", f"{each.noisy_per_s:,.0f}")
        for name, each in figures
    ]


def _phases(evidence: Evidence) -> str:
    """Return the table of the phases; behind each figure a bar shows its size."""
    medians = evidence.maybe_medians()
    if medians is None:
        return ""
    most = [max(column) for column in zip(*medians, strict=True)]
    heading, *rows = _rows(evidence)
    body = "".join(
        f"<tr><td>{escape(name)}</td>"
        + "".join(
            f'<td class="bar"><i style="width:{100 * value / (largest or 1):.1f}%"></i>{cell}</td>'
            for cell, value, largest in zip(cells, taken, most, strict=False)
        )
        + "</tr>"
        for (name, *cells), taken in zip(rows, medians, strict=True)
    )
    table = f"<table><tr>{''.join(f'<th>{each}</th>' for each in heading)}</tr>{body}</table>"
    rounds = len(evidence.samples[Phase.ALONE])
    return PHASES.format(limit=LIMIT_PER_S, rounds=rounds, table=table)
