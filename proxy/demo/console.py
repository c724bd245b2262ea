"""The demo's output: live tables on a terminal, plain lines everywhere else.

Rules:
- Both show the same figures. A missing figure is a dash.
- While it runs, latencies are those of the last two seconds; at the end, of the whole run.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from proxy.demo.experiment import Condition, maybe_percentile_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.demo.checks import Finding
    from proxy.demo.experiment import Comparison, Progress
    from proxy.demo.processes import ClientStatus

RECENT_STATUSES = 4
"""Clients report every half second."""
PLAIN_EVERY_S = 2.0
CLIENT_COLUMNS = (
    "client", "library", "requests/s", "records/s", "acked", "consumed", "p50 ms", "p99 ms",
)  # fmt: skip
COMPARED_COLUMNS = ("beside it", "polite records/s", "p50 ms", "p99 ms", "noisy requests/s")
MARKS = {True: "ok", False: "FAIL", None: "??"}
STYLES = {True: "bold green", False: "bold red", None: "bold yellow"}


class ClientRow(NamedTuple):
    """One client's figures."""

    name: str
    library: str
    requests_per_s: float
    records_per_s: float
    acked: int
    consumed: int
    p50_ms: float | None
    p99_ms: float | None

    def cells(self) -> tuple[str, ...]:
        """Return the figures as they are shown, by `CLIENT_COLUMNS`."""
        return (
            self.name,
            self.library,
            f"{self.requests_per_s:,.0f}",
            f"{self.records_per_s:,.0f}",
            f"{self.acked:,}" if self.acked else "-",
            f"{self.consumed:,}" if self.consumed else "-",
            "-" if self.p50_ms is None else f"{self.p50_ms:.1f}",
            "-" if self.p99_ms is None else f"{self.p99_ms:.1f}",
        )


class _Moment(NamedTuple):
    at_s: float
    status: ClientStatus

    @property
    def records(self) -> int:
        return self.status.acked + self.status.consumed


class ClientFigures:
    """One client's figures, from its statuses."""

    def __init__(self, name: str, library: str) -> None:
        self._name = name
        self._library = library
        self._recent: deque[_Moment] = deque(maxlen=RECENT_STATUSES)
        self._active: list[_Moment] = []
        """Those with a latency: idle time before and after does not lower the rates of the whole run."""

    @property
    def records(self) -> int:
        """Return how many records were acked or consumed so far."""
        return self._recent[-1].records if self._recent else 0

    def add(self, status: ClientStatus, now_s: float) -> None:
        """Enter one status."""
        moment = _Moment(now_s, status)
        self._recent.append(moment)
        if status.latencies_us:
            self._active.append(moment)

    def recent(self) -> ClientRow:
        """Return the row of the last two seconds."""
        requests_per_s = self._recent[-1].status.requests_per_s if self._recent else 0.0
        return self._row(self._recent, requests_per_s)

    def whole(self) -> ClientRow:
        """Return the row of the whole run."""
        rates = [moment.status.requests_per_s for moment in self._active]
        return self._row(self._active, sum(rates) / len(rates) if rates else 0.0)

    def _row(self, moments: Sequence[_Moment], requests_per_s: float) -> ClientRow:
        records_per_s = 0.0
        if moments and (seconds := moments[-1].at_s - moments[0].at_s) > 0:
            records_per_s = (moments[-1].records - moments[0].records) / seconds
        last = self._recent[-1].status if self._recent else None
        latencies_us = list(chain.from_iterable(each.status.latencies_us for each in moments))
        return ClientRow(
            self._name,
            self._library,
            requests_per_s,
            records_per_s,
            last.acked if last else 0,
            last.consumed if last else 0,
            maybe_percentile_ms(latencies_us, 50),
            maybe_percentile_ms(latencies_us, 99),
        )


class Screen:
    """Where the demo shows what happens. A context manager."""

    def __init__(self, console: Console, *, plain: bool = False) -> None:
        self._console = console
        self._live = None
        if console.is_terminal and not plain:
            self._live = Live(console=console, auto_refresh=False)
        self._next_s: float | None = None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, text: str | Text) -> None:
        """Show a line that stays. It is not wrapped: an address on two lines could not be followed."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, rows: Sequence[ClientRow], now_s: float, left_s: float) -> None:
        """Show the clients' figures: on a terminal at each call, else every two seconds a line each."""
        if self._live is not None:
            self._live.update(client_table(rows, f"{left_s:.0f} s left"), refresh=True)
            return
        is_due = self._next_s is not None and now_s >= self._next_s
        if is_due or self._next_s is None:
            self._next_s = now_s + PLAIN_EVERY_S
        for row in rows if is_due else ():
            name, _, requests, records, acked, consumed, p50, p99 = row.cells()
            self.note(
                f"{left_s:3.0f} s left {name:<10} {requests:>6} requests/s {records:>6} records/s "
                f"acked {acked:>7} consumed {consumed:>7} p50 {p50:>6} ms p99 {p99:>6} ms"
            )

    def compare(self, rows: Sequence[ClientRow], progress: Progress) -> None:
        """Show the first part's figures and how the experiment goes; without a terminal, the last sample."""
        comparison, condition, turn, turns = progress
        if self._live is not None:
            caption = f"medians, round {turn} of {turns}"
            tables = Group(client_table(rows, "first part"), compared_table(comparison, caption))
            self._live.update(tables, refresh=True)
            return
        last = comparison.samples[condition][-1]
        self.note(
            f"round {turn:>2} of {turns}  {condition.value:<15} p50 {last.p50_ms:>6.1f} ms "
            f"p99 {last.p99_ms:>6.1f} ms  noisy {last.noisy_per_s:>8,.0f} requests/s"
        )

    def close(
        self,
        rows: Sequence[ClientRow],
        comparison: Comparison | None,
        findings: Sequence[Finding],
    ) -> None:
        """Show the figures of the whole run and the verdict."""
        tables = [client_table(rows, "first part")]
        if comparison is not None:
            tables.append(compared_table(comparison, "medians of all rounds"))
        if self._live is not None:
            self._live.update(Group(*tables), refresh=True)
            self._live.stop()  # lines printed from now on stand below the tables
        else:
            self._console.print(*tables)
        for holds, name, detail in ((each.holds, each.name, each.detail) for each in findings):
            mark = f"{MARKS[holds]:<4} ", STYLES[holds]
            self.note(Text.assemble(mark, (f"{name}: ", "bold"), detail))
        self.note(Text(summary(findings), "bold"))


def client_table(rows: Sequence[ClientRow], caption: str) -> Table:
    """Return the table of all clients."""
    return _table(CLIENT_COLUMNS, [row.cells() for row in rows], caption, words=2)


def compared_table(comparison: Comparison, caption: str) -> Table:
    """Return the table of the experiment's conditions."""
    return _table(COMPARED_COLUMNS, compared_cells(comparison), caption, words=1)


def compared_cells(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return a line for each condition as it is shown, by `COMPARED_COLUMNS`."""
    lines: list[tuple[str, ...]] = []
    for condition in Condition:
        name = condition.value
        if condition is Condition.QUOTA:
            name += f" {comparison.limit_per_s:.0f}/s"
        medians = comparison.maybe_medians(condition)
        if medians is None:
            lines.append((name, "-", "-", "-", "-"))
            continue
        noisy = "-" if condition is Condition.ALONE else f"{medians.noisy_per_s:,.0f}"
        latencies = f"{medians.p50_ms:.1f}", f"{medians.p99_ms:.1f}"
        lines.append((name, f"{medians.records_per_s:,.0f}", *latencies, noisy))
    return lines


def _table(
    columns: Sequence[str], lines: Sequence[Sequence[str]], caption: str, *, words: int
) -> Table:
    """A table narrow enough for 80 columns; its first `words` columns are text, the others figures."""
    table = Table(caption=caption, caption_justify="left", box=SIMPLE_HEAD, padding=0)
    for place, column in enumerate(columns):
        table.add_column(
            column, justify="left" if place < words else "right", no_wrap=True, min_width=6
        )
    for line in lines:
        table.add_row(*line)
    return table


def summary(findings: Sequence[Finding]) -> str:
    """Return the verdict in one line."""
    failed = [finding.name for finding in findings if finding.holds is False]
    unjudged = [finding.name for finding in findings if finding.holds is None]
    verdict = f"failed ({', '.join(failed)})" if failed else "passed"
    return f"Verdict: {verdict}" + (f"; not judged: {', '.join(unjudged)}" if unjudged else "")
