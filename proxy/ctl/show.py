"""How answers of the admin server are shown: plain columns, and the live table of `sluice top`.

- Plain output has one line a thing and no colour, so that it can be cut and searched.
- A figure that is not there is a dash. What clients chose to be called is printed with `?` for control characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Group

    Row = dict[str, Any]

NONE: Final = "-"
PRINCIPALS: Final = (
    "user", "client id", "conns", "req/s", "limit/s", "throttled", "now", "p50 ms", "p99 ms",
)  # fmt: skip
CONNECTIONS: Final = (
    "id",
    "client",
    "user",
    "client id",
    "node",
    "in flight",
    "unsent",
    "muted",
    "age s",
)
WAITING: Final = ("connection", "user", "client id", "api", "kind", "age ms", "waits for")
DECISIONS: Final = ("time", "user", "client id", "api", "what", "ms", "detail")
QUOTAS: Final = ("user", "client id", "quota", "per second", "from")
_RIGHT: Final = frozenset({
    *("conns", "req/s", "limit/s", "throttled", "now", "p50 ms", "p99 ms"),
    *("id", "in flight", "unsent", "age s", "connection", "age ms", "ms", "per second"),
})  # fmt: skip
_FROM: Final = {"file": "config file", "override": "live"}
_SPARE_LINES: Final = 14
"""Of a terminal: what stands around the rows of the live table."""


def columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Text in columns under their names, each as wide as it must be."""
    table = [names, *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(names))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for cell, width, name in zip(row, widths, names, strict=True)
        ).rstrip()
        for row in table
    )


def principal(row: Row) -> tuple[str, ...]:
    """By PRINCIPALS."""
    quantiles = row["throttle_ms"]
    return (
        name(row["user"]),
        name(row["client_id"]),
        str(row["connections"]),
        figure(row["requests_per_s"]),
        figure(row["limit"]),
        str(row["throttled"]),
        str(row["throttled_now"]),
        figure(quantiles["p50"]),
        figure(quantiles["p99"]),
    )


def connection(row: Row) -> tuple[str, ...]:
    """By CONNECTIONS."""
    return (
        str(row["id"]),
        row["client"],
        name(row["user"]),
        name(row["client_id"]),
        "bootstrap" if row["node"] is None else str(row["node"]),
        str(row["in_flight"]),
        str(row["client_unsent_bytes"] + row["broker_unsent_bytes"]),
        ",".join(row["muted"]) or NONE,
        figure(row["age_s"]),
    )


def waiting(row: Row) -> tuple[str, ...]:
    """By WAITING."""
    named = (name(row["user"]), name(row["client_id"]))
    told = (row["api"], row["kind"], str(row["age_ms"]), name(row["waits_for"]))
    return (str(row["session"]), *named, *told)


def decision(row: Row) -> tuple[str, ...]:
    """By DECISIONS."""
    from datetime import UTC, datetime  # noqa: PLC0415 - start-up of other commands

    time = datetime.fromtimestamp(row["ts_ms"] / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    named = (name(row["user"]), name(row["client_id"]))
    return (time, *named, row["api"], row["what"], str(row["ms"]), name(row["detail"]))


def quota(row: Row) -> tuple[str, ...]:
    """By QUOTAS."""
    origin = _FROM.get(row["origin"], NONE)
    return (
        name(row["user"]),
        name(row["client_id"]),
        row["quota"],
        figure(row["per_second"]),
        origin,
    )


def status(now: Row, purgatory: Row) -> str:
    """The process, in a few lines."""
    reload = now["last_reload"]
    lag = now["loop_lag_ms"]
    used = f"CPU {figure(now['cpu_percent'])} %, memory {size(now['rss_bytes'])}"
    waits = [f"{purgatory['holds']} held", f"{purgatory['produces']} produces"]
    muted = [f"{count} {why}" for why, count in now["muted"].items()]
    lines = [
        f"Sluice {now['version']}, config {now['config_hash']}" + (", draining" * now["draining"]),
        f"{now['connections']} connections, {figure(now['requests_per_s'])} requests/s",
        f"loop lag {figure(lag['p50'])} ms, p99 {figure(lag['p99'])} ms; {used}",
        f"waiting: {', '.join(waits)}, {purgatory['fetches']} fetches"
        + longest(purgatory["oldest"]),
        "memory pools: " + "; ".join(map(pool, now["pools"])),
        "not read: " + (", ".join(muted) or "nobody"),
    ]
    if reload is not None:
        lines.append("the last reload " + ("succeeded" if reload["ok"] else "failed"))
    dropped = now["dropped"]
    if any(dropped.values()):
        lines.append(f"dropped: {dropped['spans']} spans, {dropped['records']} records")
    return "\n".join(lines)


def longest(oldest: list[Row]) -> str:
    """Of those that wait, who has waited longest."""
    if not oldest:
        return ""
    row = oldest[0]
    who = f"{name(row['user'])}/{name(row['client_id'])}"
    return (
        f"; longest {figure(row['age_ms'])} ms: {row['api']} of {who}, for {name(row['waits_for'])}"
    )


def pool(row: Row) -> str:
    """One memory pool."""
    of = f" of {size(row['size_bytes'])}" if row["size_bytes"] is not None else ""
    dry = f", dry {figure(row['depleted_percent'])} % of the time" if row["depleted_ms"] else ""
    return f"{row['name']} {size(row['used_bytes'])}{of}{dry}"


def live(event: Row, height: int) -> Group:
    """The picture of `sluice top`."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - only the live view needs rich
    from rich.console import Group  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    head = Text(status(event["now"], event["purgatory"]))
    most = max(1, height - _SPARE_LINES)
    rows = event["principals"]
    table = Table(box=SIMPLE_HEAD, expand=False)
    for each in PRINCIPALS:
        table.add_column(each, justify="right" if each in _RIGHT else "left", no_wrap=True)
    for row in rows[:most]:
        style = "red" if row["throttled_now"] else ""
        table.add_row(*map(Text, principal(row)), style=style)
    if len(rows) > most:
        table.caption = f"and {len(rows) - most} more"
    return Group(head, table)


def name(text: str | None) -> str:
    """As somebody chose to be called."""
    if not text:
        return NONE
    return "".join(c if c.isprintable() else "?" for c in text)


def figure(value: float | None) -> str:
    """Short: no decimals of large numbers."""
    if value is None:
        return NONE
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.1f}"


def size(size_bytes: int) -> str:
    """In the largest unit that leaves a whole number."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
