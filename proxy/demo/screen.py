"""How the demo is shown: a live table on a terminal, plain lines everywhere else.

Rules:
- Both show the same figures; only the plain one is meant for a log.
- A figure that is not there is a dash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from proxy.demo.comparison import Arm

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from proxy.demo.board import Row
    from proxy.demo.comparison import Comparison, Progress
    from proxy.demo.verdict import Check

PLAIN_EVERY_S = 2.0
COLUMNS = (
    "client", "library", "requests/s", "records/s", "acked", "consumed", "p50 ms", "p99 ms",
)  # fmt: skip

COMPARED = ("beside it", "polite records/s", "p50 ms", "p99 ms", "noisy requests/s")

MARKS = {True: "ok", False: "FAIL", None: "??"}
STYLES = {True: "bold green", False: "bold red", None: "bold yellow"}


class Screen(Protocol):
    """Where the stage shows what happens."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def note(self, text: str) -> None:
        """Show one line that stays."""

    def show(self, rows: Sequence[Row], now_s: float, left_s: float) -> None:
        """Show how it goes."""

    def compare(self, rows: Sequence[Row], progress: Progress) -> None:
        """Show the first part's rows, and how the second goes."""

    def close(
        self, rows: Sequence[Row], comparison: Comparison | None, checks: Sequence[Check]
    ) -> None:
        """Show the whole run and the verdict."""


def cells(row: Row) -> tuple[str, ...]:
    """Return a row's figures as they are shown."""
    return (
        row.name,
        row.library,
        f"{row.requests_per_s:,.0f}",
        f"{row.records_per_s:,.0f}",
        f"{row.acked:,}" if row.acked else "-",
        f"{row.consumed:,}" if row.consumed else "-",
        "-" if row.p50_ms is None else f"{row.p50_ms:.1f}",
        "-" if row.p99_ms is None else f"{row.p99_ms:.1f}",
    )


def comparison_cells(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the lines of the comparison by `COMPARED`, as they are shown."""
    lines: list[tuple[str, ...]] = []
    for arm in Arm:
        name = f"{arm.value} {comparison.limit_per_s:.0f}/s" if arm is Arm.WITH else arm.value
        typical = comparison.maybe_typical(arm)
        if typical is None:
            lines.append((name, "-", "-", "-", "-"))
            continue
        noisy = "-" if arm is Arm.ALONE else f"{typical.noisy_per_s:,.0f}"
        figures = f"{typical.p50_ms:.1f}", f"{typical.p99_ms:.1f}"
        lines.append((name, f"{typical.records_per_s:,.0f}", *figures, noisy))
    return lines


class Plain:
    """Lines, for pipes and logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_s: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def note(self, text: str) -> None:
        """Write one line."""
        self._line(text)

    def show(self, rows: Sequence[Row], now_s: float, left_s: float) -> None:
        """Write a line a client, every two seconds."""
        due = self._next_s is not None and now_s >= self._next_s
        if due or self._next_s is None:
            self._next_s = now_s + PLAIN_EVERY_S
        if not due:
            return
        for row in rows:
            self._figures(f"{left_s:3.0f} s left ", row)

    def compare(self, rows: Sequence[Row], progress: Progress) -> None:
        """Write a line a sample."""
        del rows
        comparison, arm, turn, turns = progress
        last = comparison.samples(arm)[-1]
        self._line(
            f"round {turn:>2} of {turns}  {arm.value:<15} p50 {last.p50_ms:>6.1f} ms "
            f"p99 {last.p99_ms:>6.1f} ms  noisy {last.noisy_per_s:>8,.0f} requests/s"
        )

    def close(
        self, rows: Sequence[Row], comparison: Comparison | None, checks: Sequence[Check]
    ) -> None:
        """Write the whole run and the verdict."""
        for row in rows:
            self._figures("whole run  ", row)
        if comparison is not None:
            for cells_of in (COMPARED, *comparison_cells(comparison)):
                name, records, p50, p99, noisy = cells_of
                self._line(f"{name:<19} {records:>16} {p50:>8} {p99:>8} {noisy:>17}")
        for check in checks:
            self._line(f"{MARKS[check.holds]:<4} {check.name}: {check.detail}")
        self._line(summary(checks))

    def _figures(self, lead: str, row: Row) -> None:
        name, _, requests, records, acked, consumed, p50, p99 = cells(row)
        self._line(
            f"{lead}{name:<10} {requests:>6} requests/s {records:>6} records/s "
            f"acked {acked:>7} consumed {consumed:>7} p50 {p50:>6} ms p99 {p99:>6} ms"
        )

    def _line(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class Terminal:
    """A table that is drawn anew, and stays when it ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def note(self, text: str) -> None:
        """Write one line."""
        # An address that is broken over two lines is none.
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, rows: Sequence[Row], now_s: float, left_s: float) -> None:
        """Draw the table, as often as asked."""
        del now_s
        self._live.update(table(rows, f"{left_s:.0f} s left"), refresh=True)

    def compare(self, rows: Sequence[Row], progress: Progress) -> None:
        """Draw both tables."""
        caption = f"medians, round {progress.turn} of {progress.turns}"
        compared = comparison_table(progress.comparison, caption)
        tables = Group(table(rows, "first part"), compared)
        self._live.update(tables, refresh=True)

    def close(
        self, rows: Sequence[Row], comparison: Comparison | None, checks: Sequence[Check]
    ) -> None:
        """Draw the whole run and the verdict under it."""
        parts: list[Table | Text] = [table(rows, "first part")]
        if comparison is not None:
            parts.append(comparison_table(comparison, "medians of all rounds"))
        self._live.update(Group(*parts, verdict_lines(checks)), refresh=True)


def table(rows: Sequence[Row], caption: str) -> Table:
    """Return the table of all clients."""
    # Narrow enough for 80 columns.
    drawn = Table(caption=caption, caption_justify="left", box=SIMPLE_HEAD, padding=0)
    for place, column in enumerate(COLUMNS):
        drawn.add_column(
            column, justify="left" if place < 2 else "right", no_wrap=True, min_width=6
        )
    for row in rows:
        drawn.add_row(*cells(row))
    return drawn


def comparison_table(comparison: Comparison, caption: str) -> Table:
    """Return the table of the three arms."""
    drawn = Table(caption=caption, caption_justify="left", box=SIMPLE_HEAD, padding=0)
    for place, column in enumerate(COMPARED):
        drawn.add_column(column, justify="right" if place else "left", no_wrap=True, min_width=8)
    for line in comparison_cells(comparison):
        drawn.add_row(*line)
    return drawn


def verdict_lines(checks: Sequence[Check]) -> Text:
    """Return the verdict, one line a check."""
    text = Text()
    for check in checks:
        text.append(f" {MARKS[check.holds]:<4} ", STYLES[check.holds])
        text.append(f"{check.name}: ", "bold").append(f"{check.detail}\n")
    return text.append(summary(checks), "bold")


def summary(checks: Sequence[Check]) -> str:
    """Return the last line."""
    failed = [check.name for check in checks if check.holds is False]
    unjudged = [check.name for check in checks if check.holds is None]
    words = f"failed ({', '.join(failed)})" if failed else "passed"
    return f"Verdict: {words}" + (f"; not judged: {', '.join(unjudged)}" if unjudged else "")


def choose(console: Console, *, plain: bool) -> Screen:
    """Return the screen that fits where we write to."""
    return Terminal(console) if console.is_terminal and not plain else Plain(console)
