"""The tables that `sluice-pipeline whatif` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from pipeline.cli.printing import console_of, tell, visible
from policies.quota.entity import REQUEST_RATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.whatif.sweep import SweepPoint

WIDTH = 200
"""Of a pipe: names are folded, not cut."""


def print_curve(points: Sequence[SweepPoint]) -> None:
    """Print a line for each kind of limit and factor."""
    table = Table(title="The candidate, and its multiples", box=None)
    table.add_column("limit")
    for name in ("factor", "clients", "throttled", "accepted", "delayed requests", "p50", "p99"):
        table.add_column(name, justify="right")
    for point in points:
        throttled = f"{point.throttled_clients:,}"
        if point.unenforceable_clients:
            throttled += f" ({point.unenforceable_clients:,} not held to it)"
        table.add_row(
            point.limit_key,
            f"{point.factor:g}",
            f"{point.clients:,}",
            throttled,
            _share(point.accepted_share),
            _share(point.throttled_share),
            _delay(point.delay_p50_ms),
            _delay(point.delay_p99_ms),
        )
    console_of(WIDTH).print(table)


def print_clients(rows: Sequence[dict[str, Any]], factor: float) -> None:
    """Print a line for each client, and the reason of each flag."""
    title = "Clients, the most throttled first" + ("" if factor == 1 else f", factor {factor:g}")
    table = Table(title=title, box=None)
    for name in ("instance", "user", "client id", "quota of"):
        table.add_column(name, overflow="fold")
    for name in ("limit", "wants", "gets", "delayed", "p50", "p99"):
        table.add_column(name, justify="right")
    table.add_column("flag")
    for row in rows:
        unit = "/s" if row["limit_key"] == REQUEST_RATE else " B/s"
        table.add_row(
            *(visible(row[name]) for name in ("instance", "user", "client_id", "quota_entity")),
            *(f"{row[name]:,.4g}{unit}" for name in ("limit", "wanted_per_s", "accepted_per_s")),
            _share(row["throttled_share"]),
            _delay(row["delay_p50_ms"]),
            _delay(row["delay_p99_ms"]),
            row["flag"],
        )
    console_of(WIDTH).print(table)
    for row in rows:
        if row["flag"]:
            tell(f"{row['flag']}: {row['user']} {row['client_id']}: {row['reason']}")


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _delay(delay_ms: float) -> str:
    return f"{delay_ms:,.0f} ms"
