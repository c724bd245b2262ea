"""The report of `sluice-pipeline usage` as a table for a person: columns without a figure are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from rich import box
from rich.table import Table

from pipeline.cli.printing import console_of, visible
from pipeline.schema import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Figures: TypeAlias = "Mapping[str, object]"
NOTHING: Final = "-"
WIDTH: Final = 160
"""The width where there is no terminal."""
MAX_NAME: Final = 40
_UNLIMITED: Final = 10_000


def print_usage(rows: Sequence[Figures], by: Sequence[str], *, has_more: bool) -> None:
    """Print the rows of a usage report by these columns; on a narrow terminal without the last columns."""
    console = console_of(WIDTH)
    if not rows:
        console.print("no rows in this time")
        return
    shown = [each for each in _COLUMNS if any(each.value(row) for row in rows)]
    left_out: list[str] = []
    table = _table(rows, by, shown)
    unlimited = console.options.update(max_width=_UNLIMITED)
    while len(shown) > 1 and console.measure(table, options=unlimited).maximum > console.width:
        left_out.insert(0, shown.pop().head)
        table = _table(rows, by, shown)
    console.print(table)
    if left_out:
        console.print(f"Left out for want of width: {', '.join(left_out)}. --json has all.")
    if has_more:
        console.print("There are more lines: --top N shows them.")


def _table(rows: Sequence[Figures], by: Sequence[str], shown: Sequence[_Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in by:
        table.add_column(
            name.replace("_", " "), overflow="ellipsis", max_width=MAX_NAME, no_wrap=True
        )
    for each in shown:
        table.add_column(each.head, justify=each.justify, no_wrap=True)
    for row in rows:
        keys = [visible(row[name]) or NOTHING for name in by]
        table.add_row(*keys, *(each.text(row) for each in shown))
    return table


def count_text(number: float) -> str:
    """Return a count, at most seven characters: 12,345 or 1.23 M."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if number >= size:
            return f"{_three(number / size)} {unit}"
    return f"{number:,.0f}"


def bytes_text(number: float) -> str:
    """Return a size in decimal units: 512 B, 1.23 MB."""
    for size, unit in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= size:
            return f"{_three(number / size)} {unit}"
    return f"{number:.0f} B"


def duration_text(ms: float) -> str:
    """Return a duration with its unit: 850 µs, 1.2 ms, 3.4 s, 5.1 h."""
    units = ((86_400_000.0, "d"), (3_600_000.0, "h"), (60_000.0, "min"), (1000.0, "s"), (1.0, "ms"))
    for size, unit in units:
        if ms >= size:
            return f"{_three(ms / size)} {unit}"
    return f"{ms * 1000:.0f} µs"


def share_text(share: float) -> str:
    """Return a share in per cent; a small one is not rounded to zero."""
    return "<0.1 %" if 0 < share < 0.001 else f"{share * 100:.1f} %"


def _three(number: float) -> str:
    """Return three digits, or all of a number from 1000."""
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"


class _Column(NamedTuple):
    head: str
    value: Callable[[Figures], object]
    show: Callable[[float], str] | None

    @property
    def justify(self) -> Literal["left", "right"]:
        return "left" if self.show is None else "right"

    def text(self, row: Figures) -> str:
        value = self.value(row)
        if value is None:
            return NOTHING
        return str(value) if self.show is None else self.show(float(str(value)))


def _figure(name: str, factor: float = 1) -> Callable[[Figures], object]:
    def value(row: Figures) -> object:
        found = row.get(name)
        return found if found is None or factor == 1 else float(str(found)) * factor

    return value


def _first(*names: str) -> Callable[[Figures], object]:
    return lambda row: next((row[name] for name in names if name in row), None)


def _where_time_went(row: Figures) -> str | None:
    shares = {stage: row.get(f"{stage}_time_share") for stage in STAGES}
    known = {stage: float(str(share)) for stage, share in shares.items() if share}
    largest = sorted(known.items(), key=lambda each: -each[1])
    return ", ".join(f"{stage} {share:.0%}" for stage, share in largest if share >= 0.005) or None


_COLUMNS: Final = (
    _Column("requests", _first("requests", "ended"), count_text),
    _Column("received", _first("request_bytes", "replied_request_bytes"), bytes_text),
    _Column("sent", _first("response_bytes", "replied_response_bytes"), bytes_text),
    _Column("throttled", _figure("throttled_share"), share_text),
    _Column("delays", _figure("delay_s", 1000), duration_text),
    _Column("p50", _figure("upstream_p50_ms"), duration_text),
    _Column("p99", _figure("upstream_p99_ms"), duration_text),
    _Column("where time went", _where_time_went, None),
    _Column("no reply", _figure("no_reply"), count_text),
    _Column("answered", _figure("answered"), count_text),
    _Column("expired", _figure("expired"), count_text),
    _Column("lost", _figure("disconnected"), count_text),
    _Column("exempt", _figure("exempt"), count_text),
    _Column("records in", _figure("produce_records"), count_text),
    _Column("bytes in", _figure("produce_bytes"), bytes_text),
    _Column("produces", _figure("produce_requests"), count_text),
    _Column("records out", _figure("fetch_records"), count_text),
    _Column("bytes out", _figure("fetch_bytes"), bytes_text),
    _Column("fetches", _figure("fetch_replies"), count_text),
)
