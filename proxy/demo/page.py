"""The page of a run: one HTML file with everything in it, to be kept or sent to somebody.

Rules:
- It needs nothing else: no script, no font, no other file; and it says no more than the terminal did, in more detail.
- The verdict is `verdict.judge`'s. What Sluice itself saw stands apart, and is not judged.
- Whatever was told by another process is escaped.
"""

from __future__ import annotations

import time
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from proxy.demo.comparison import Arm
from proxy.demo.drawing import Strip, course, places, strips
from proxy.demo.screen import COLUMNS, COMPARED, cells, comparison_cells, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from proxy.demo.board import Row
    from proxy.demo.comparison import Comparison
    from proxy.demo.dashboard import Point, Seen
    from proxy.demo.messages import Brokers
    from proxy.demo.verdict import Check

MAX_DECISIONS = 5
MARKS = {True: ("ok", "ok"), False: ("bad", "failed"), None: ("unsure", "not judged")}


class Run(NamedTuple):
    """What there is to tell of a run."""

    rows: Sequence[Row]
    """Of the first part."""
    comparison: Comparison | None
    checks: Sequence[Check]
    seen: Seen | None
    """What Sluice told of it; None: it was not asked, or did not answer."""
    brokers: Brokers
    advertised: Brokers
    bootstrap_port: int
    client_ports: Mapping[str, AbstractSet[int]] = {}
    """Per client: the ports it was seen connected to. Empty where that cannot be seen."""
    about: Sequence[str] = ()
    """Where and when it was."""


def write(path: Path, run: Run) -> None:
    """Write it, in place of what was there. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html_of(run), "utf-8")


def html_of(run: Run) -> str:
    """Return the whole page."""
    style = (files("proxy.demo") / "page.css").read_text("utf-8")
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A run of sluice demo</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<link rel="icon" href="data:,"><style>{style}</style></head><body><main>',
        f'<h1>A run of <code>sluice demo</code></h1><p class="about">{_joined(run.about)}</p>',
        _verdict(run.checks),
        *([] if run.comparison is None else [_contest(run.comparison)]),
        _job(run.rows),
        _checks(run.checks),
        *([] if run.seen is None else [_seen(run.seen)]),
        _places(run),
        "</main></body></html>",
    ]
    return "\n".join(parts)


def _verdict(checks: Sequence[Check]) -> str:
    held = [check.holds for check in checks]
    kind = "bad" if False in held else "unsure" if None in held else "ok"
    return f'<p class="verdict {kind}">{escape(summary(checks))}</p>'


def _contest(comparison: Comparison) -> str:
    limit = f"{comparison.limit_per_s:.0f}"
    lines = comparison_cells(comparison)
    names = {arm: line[0] for arm, line in zip(Arm, lines, strict=True)}
    latencies = [
        Strip(
            names[arm],
            [taken.p50_ms for taken in comparison.samples(arm)],
            [taken.p99_ms for taken in comparison.samples(arm)],
            tone="loud" if arm is Arm.WITHOUT else "",
        )
        for arm in Arm
    ]
    rates = [
        Strip(
            names[arm],
            [taken.noisy_per_s for taken in comparison.samples(arm)],
            bounds=[comparison.limit_per_s] if arm is Arm.WITH else [],
            tone="loud" if arm is Arm.WITHOUT else "",
        )
        for arm in (Arm.WITHOUT, Arm.WITH)
    ]
    rounds = len(comparison.samples(Arm.ALONE))
    circle = '<svg viewBox="0 0 12 12" aria-hidden="true"><circle class="{}" cx="6" cy="6" r="4"/></svg>{}'
    keys = [circle.format("dot", "p50 of a sample"), circle.format("ring", "p99 of a sample")]
    return "\n".join(
        (
            "<section><h2>A noisy neighbour, and a quota</h2>",
            (
                "<p>A polite producer sends 200 records a second. Beside it a noisy one sends all it can, each "
                f"record in a request of its own; or what a quota of {limit} requests a second lets through. "
                f"All three take turns, {rounds} rounds.</p>"
            ),
            "<h3>How long the polite one waits for its acknowledgement, by what is beside it</h3>",
            strips(latencies, "milliseconds", "Latency of the polite producer in each sample"),
            f'<p class="key">{"".join(f"<span>{key}</span>" for key in keys)}</p>',
            "<h3>What the noisy one gets through</h3>",
            strips(rates, "requests a second", "Requests per second of the noisy producer"),
            f'<p class="key">The stroke is its quota, {limit} a second.</p>',
            _table("Medians of all rounds", COMPARED, lines, texts=1),
            "</section>",
        )
    )


def _job(rows: Sequence[Row]) -> str:
    return "\n".join(
        (
            "<section><h2>A job: two producers and a group of two readers</h2>",
            _table("The whole of the first part", COLUMNS, [cells(row) for row in rows], texts=2),
            (
                '<p class="note">A producer\'s latency is from handing a record over to its acknowledgement; '
                "a reader's from the producer's hand to its own.</p></section>"
            ),
        )
    )


def _checks(checks: Sequence[Check]) -> str:
    lines = "".join(
        f'<tr><td class="{kind}">{word}</td><th scope="row">{escape(check.name)}</th>'
        f"<td>{escape(check.detail)}</td></tr>"
        for check in checks
        for kind, word in [MARKS[check.holds]]
    )
    head = "<tr><th>finding</th><th>what must hold</th><th>what was seen</th></tr>"
    return (
        "<section><h2>The verdict</h2><p class=\"note\">From the clients' own books and the kernel's list of "
        "sockets, never from Sluice's word.</p>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="Verdict">'
        f"<table><thead>{head}</thead><tbody>{lines}</tbody></table></div></section>"
    )


def _seen(seen: Seen) -> str:
    throttled = [principal for principal in seen.principals if principal.throttled]
    kinds: tuple[tuple[str, Callable[[Point], float]], ...] = (
        ("Requests/s", lambda point: point.requests_per_s),
        ("Throttled/s", lambda point: point.throttled_per_s),
        ("Connections", lambda point: point.connections),
    )
    courses = [
        f'<div><h3>{name} <span class="most">max {max(map(value, seen.history)):,.0f}</span></h3>'
        + course([(p.ts_ms / 1000, value(p)) for p in seen.history], f"{name}, second by second")
        + "</div>"
        for name, value in kinds
        if seen.history
    ]
    delays = [
        (p.client_id, p.user, f"{p.throttled:,}", _ms(p.throttle_ms.p50), _ms(p.throttle_ms.p99))
        for p in throttled
    ]
    decisions = [
        (_clock(d.ts_ms), d.what, d.api, d.client_id, f"{d.ms:,}", d.detail)
        for d in seen.decisions[:MAX_DECISIONS]
    ]
    columns = ("client id", "user", "requests throttled", "delay p50 ms", "delay p99 ms")
    told = ("time", "what", "API", "client id", "ms", "why")
    return "\n".join(
        (
            "<section><h2>What Sluice itself saw</h2>",
            (
                '<p class="note">What its dashboard showed at the end: second by second, over '
                f"{len(seen.history)} seconds. It is no part of the verdict.</p>"
                f'<div class="courses">{"".join(courses)}</div>'
            ),
            _table("Who was throttled", columns, delays, texts=2) if delays else "",
            _table("Its last decisions", told, decisions, texts=4, last=1) if decisions else "",
            "</section>",
        )
    )


def _places(run: Run) -> str:
    nodes = sorted(run.brokers)
    ports = {run.bootstrap_port: f"bootstrap :{run.bootstrap_port}"}
    ports |= {port: f"broker {n} :{port}" for n in nodes for port in [_port(run.advertised[n])]}
    brokers = [f"broker {node} at {run.brokers[node]}" for node in nodes]
    clients = [
        (name, {ports[port] for port in used if port in ports})
        for name, used in run.client_ports.items()
    ]
    return (
        "<section><h2>Where everything stood</h2>"
        + places(clients, list(ports.values()), brokers)
        + '<p class="note">A client is given the bootstrap port alone; the others it learns from metadata, in which '
        "Sluice has put itself in each broker's place. A line is a connection that the kernel listed.</p>"
        "<h3>Again</h3><pre>make demo</pre></section>"
    )


def _table(
    caption: str,
    columns: Sequence[str],
    lines: Sequence[Sequence[str]],
    *,
    texts: int,
    last: int = 0,
) -> str:
    """A table: `texts` columns of words, then figures, then `last` columns of words again."""

    def kind(place: int) -> str:
        return ' class="number"' if texts <= place < len(columns) - last else ""

    head = "".join(f"<th{kind(place)}>{escape(name)}</th>" for place, name in enumerate(columns))
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind(place)}>{escape(cell)}</td>" for place, cell in enumerate(line))
        + "</tr>"
        for line in lines
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _joined(parts: Sequence[str]) -> str:
    return " · ".join(map(escape, parts))


def _clock(ts_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(ts_ms / 1000))


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
