"""The page of a run: one HTML file to keep or to send, with everything in it.

Rules:
- It loads nothing: no script, no font, no other file. It says what the terminal said, in more detail.
- Sluice's own observations have a section of their own and are no part of the verdict.
- In the drawings a mark is a measured value; nothing is smoothed. Values of different magnitude share a logarithmic
  axis. Every drawing has its description (`aria-label`); the figures are in a table beside it.
- All text from other processes is escaped.
"""

from __future__ import annotations

import math
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from proxy.demo.checks import port_of
from proxy.demo.console import CLIENT_COLUMNS, COMPARED_COLUMNS, compared_cells, summary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from proxy.admin.schemas import State
    from proxy.demo.checks import Evidence, Finding
    from proxy.demo.console import ClientRow
    from proxy.demo.experiment import Comparison

MAX_DECISIONS = 5
COURSES = (
    ("Requests/s", "requests_per_s"), ("Throttled/s", "throttled_per_s"), ("Connections", "connections"),
)  # fmt: skip
MARKS = {True: ("ok", "ok"), False: ("bad", "failed"), None: ("unsure", "not judged")}
WIDTH, LABEL, RIGHT, ROW, AXIS = 860, 190, 20, 34, 36
SMALLEST = 0.1  # smaller values are drawn there
_ROUNDS = """<section><h2>A noisy neighbour, and a quota</h2>
<p>A polite producer sends 200 records a second. Beside it runs nothing, a noisy producer that sends as much as it can,
each record in a request of its own, or the same with a quota of {limit} requests a second. The three conditions
alternate, {rounds} rounds.</p>
<h3>Latency of the polite producer, by what runs beside it</h3>{latencies}
<p class="key"><span>{dot}p50 of a sample</span><span>{ring}p99 of a sample</span></p>
<h3>Requests of the noisy producer</h3>{rates}<p class="key">The stroke is its quota, {limit} a second.</p>
{medians}</section>"""
_KEY = '<svg viewBox="0 0 12 12" aria-hidden="true"><circle class="{}" cx="6" cy="6" r="4"/></svg>'


class Run(NamedTuple):
    """The content of the page: `rows` are of the first part, `about` tells when and where it ran."""

    rows: Sequence[ClientRow]
    evidence: Evidence
    findings: Sequence[Finding]
    state: State | None
    """The content of Sluice's dashboard at the end; None if it did not answer."""
    about: Sequence[str] = ()


def write_page(path: Path, run: Run) -> None:
    """Write the page in place of an older one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html_of(run), "utf-8")


def html_of(run: Run) -> str:
    """Return the page."""
    style = (files("proxy.demo") / "page.css").read_text("utf-8")
    holds = {finding.holds for finding in run.findings}
    kind = "bad" if False in holds else "unsure" if None in holds else "ok"
    rows = [row.cells() for row in run.rows]
    comparison, state = run.evidence.comparison, run.state
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A run of sluice demo</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><style>{style}</style></head><body><main>
<h1>A run of <code>sluice demo</code></h1><p class="about">{" · ".join(map(escape, run.about))}</p>
<p class="verdict {kind}">{escape(summary(run.findings))}</p>
{_experiment(comparison) if comparison else ""}
<section><h2>A job: two producers and a group of two readers</h2>
{_table("The whole first part", CLIENT_COLUMNS, rows, words=2)}
<p class="note">A producer's latency is from passing a record to its library to the acknowledgement; a reader's from the
producer's hand to its own.</p></section>
<section><h2>The verdict</h2><p class="note">All findings come from the clients' own books and the kernel's list of
sockets, never from Sluice.</p>
{_findings(run.findings)}</section>
{_observed(state) if state else ""}
{_connections(run.evidence)}
<section><h2>Run it again</h2><pre>make demo</pre></section></main></body></html>
"""


def _experiment(comparison: Comparison) -> str:
    cells, limit = compared_cells(comparison), comparison.limit_per_s
    names = [name for name, *_ in cells]
    lines = list(zip(names, ("", "loud", ""), comparison.samples.values(), strict=True))
    latencies = [
        Strip(name, tone, [each.p50_ms for each in taken], [each.p99_ms for each in taken])
        for name, tone, taken in lines
    ]
    rates = [Strip(name, tone, [s.noisy_per_s for s in taken]) for name, tone, taken in lines[1:]]
    return _ROUNDS.format(
        limit=f"{limit:.0f}",
        rounds=len(latencies[0].dots),
        latencies=draw(latencies, "milliseconds", "Latency of the polite producer, by sample"),
        rates=draw(rates, "requests a second", "Rate of the noisy producer, by sample", limit),
        dot=_KEY.format("dot"),
        ring=_KEY.format("ring"),
        medians=_table("Medians of all rounds", COMPARED_COLUMNS, cells, words=1),
    )


def _findings(findings: Sequence[Finding]) -> str:
    lines = [(MARKS[each.holds][1], each.name, each.detail) for each in findings]
    classes = [MARKS[each.holds][0] for each in findings]
    columns = ("result", "what must hold", "what was observed")
    return _table("Findings", columns, lines, words=3, classes=classes)


def _observed(state: State) -> str:
    courses = [
        f'<div><h3>{name} <span class="most">max {max(value for _, value in points):,.0f}</span></h3>'
        f"{course(points, f'{name}, second by second')}</div>"
        for name, figure in COURSES
        if (points := [(each.ts_ms / 1000, getattr(each, figure)) for each in state.history])
    ]
    throttled = [
        (p.client_id, p.user, f"{p.throttled:,}", _ms(p.throttle_ms.p50), _ms(p.throttle_ms.p99))
        for p in state.principals
        if p.throttled
    ]
    decisions = [
        (d.what, d.api, d.client_id, d.detail, f"{d.ms:,}") for d in state.decisions[:MAX_DECISIONS]
    ]
    clients = ("client id", "user", "requests throttled", "delay p50 ms", "delay p99 ms")
    columns = ("what", "API", "client id", "why", "ms")
    return f"""<section><h2>What Sluice itself observed</h2>
<p class="note">Its dashboard at the end, over {len(state.history)} seconds. It is no part of the verdict.</p>
<div class="courses">{"".join(courses)}</div>
{_table("Throttled clients", clients, throttled, words=2) if throttled else ""}
{_table("The last decisions", columns, decisions, words=4) if decisions else ""}</section>"""


def _connections(evidence: Evidence) -> str:
    ports, ours = {evidence.bootstrap_port: "bootstrap"}, evidence.advertised
    ports |= {port_of(address): f"broker {n}" for n, address in sorted(ours.items())}
    own = [(f"broker {n}", ours[n], address) for n, address in sorted(evidence.brokers.items())]
    clients = [
        (client, ", ".join(f"{name} :{port}" for port, name in ports.items() if port in used))
        for client, used in evidence.client_ports.items()
    ]
    return f"""<section><h2>Connections</h2>
<p class="note">A client is given the bootstrap port :{evidence.bootstrap_port} alone. It learns the others from
metadata, where Sluice has replaced each broker's address by a port of its own.</p>
{_table("Brokers", ("broker", "Sluice's port for it", "its real address"), own, words=3)}
{_table("Ports of Sluice that the kernel saw clients connected to", ("client", "ports"), clients, words=2)}
</section>"""


class Strip(NamedTuple):
    """One line of a drawing; `tone` is a class of the style sheet."""

    label: str
    tone: str
    dots: Sequence[float]
    rings: Sequence[float] = ()


def draw(strips: Sequence[Strip], unit: str, description: str, bound: float | None = None) -> str:
    """Return an SVG of all lines over one logarithmic axis, with a stroke at `bound`."""
    values = [max(v, SMALLEST) for each in strips for v in (*each.dots, *each.rings)]
    values += [] if bound is None else [bound]
    first, last = min(values) / 1.25, max(values) * 1.25
    scale = (WIDTH - LABEL - RIGHT) / math.log(last / first)

    def x(value: float) -> float:
        return round(LABEL + math.log(max(value, SMALLEST) / first) * scale, 1)

    bottom = len(strips) * ROW
    unit_y = bottom + AXIS - 6
    parts = [f'<text class="unit" x="{WIDTH - RIGHT}" y="{unit_y}">{escape(unit)}</text>']
    parts += [
        f'<path class="grid" d="M{x(mark)} 0V{bottom}"/>'
        f'<text class="tick" x="{x(mark)}" y="{bottom + 16}">{mark:,g}</text>'
        for mark in axis_marks(first, last)
    ]
    if bound is not None:
        parts.append(f'<path class="bound" d="M{x(bound)} 0V{bottom}"/>')
    for place, strip in enumerate(strips):
        y = place * ROW + ROW / 2
        parts += [
            f'<g class="strip {strip.tone}">',
            f'<text class="name" x="{LABEL - 14}" y="{y + 4}">{escape(strip.label)}</text>',
            f'<path class="rule" d="M{LABEL} {y}H{WIDTH - RIGHT}"/>',
            *(f'<circle class="ring" cx="{x(v)}" cy="{y}" r="4"/>' for v in strip.rings),
            *(f'<circle class="dot" cx="{x(v)}" cy="{y}" r="4"/>' for v in strip.dots),
            "</g>",
        ]
    return _svg(WIDTH, bottom + AXIS, description, "".join(parts))


def axis_marks(first: float, last: float) -> list[float]:
    """Return the round values between two: 1, 2 and 5 times the powers of ten; over a long axis only those powers."""
    lowest, highest = math.floor(math.log10(first)), math.ceil(math.log10(last))
    steps = (1, 2, 5) if math.log10(last / first) < 2.5 else (1,)
    marks = [step * 10.0**power for power in range(lowest, highest + 1) for step in steps]
    return [mark for mark in marks if first <= mark <= last]


def course(points: Sequence[tuple[float, float]], description: str) -> str:
    """Return an SVG of one figure over time, (second, value) each, from zero up."""
    since, top = points[0][0], max(*(value for _, value in points), 1e-9)
    seconds = max(points[-1][0] - since, 1)
    line = " ".join(f"{at - since:.1f},{top - value:.6g}" for at, value in points)
    area = f'<polygon points="0,{top:.6g} {line} {points[-1][0] - since:.1f},{top:.6g}"/>'
    return _svg(seconds, top, description, area, ' preserveAspectRatio="none"')


def _svg(width: float, height: float, description: str, parts: str, more: str = "") -> str:
    label = f'role="img" aria-label="{escape(description)}"'
    return f'<svg viewBox="0 0 {width:.6g} {height:.6g}"{more} {label}>{parts}</svg>'


def _table(
    caption: str,
    columns: Sequence[str],
    lines: Sequence[Sequence[str]],
    *,
    words: int,
    classes: Sequence[str] = (),
) -> str:
    """A table: its first `words` columns are text, the others figures; `classes` are those of the first cells."""

    def row(tag: str, cells: Sequence[str], first: str = "") -> str:
        kinds = [first] + [""] * (words - 1) + ["number"] * (len(cells) - words)
        pairs = zip(kinds, cells, strict=True)
        return "".join(f'<{tag} class="{kind}">{escape(cell)}</{tag}>' for kind, cell in pairs)

    body = "".join(
        f"<tr>{row('td', line, classes[place] if classes else '')}</tr>"
        for place, line in enumerate(lines)
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{row('th', columns)}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"
