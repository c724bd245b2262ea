"""Shows answers of the admin server as columns.

- Plain output has no colour; in a pipe each row is one line (`proxy.cli.tables`).
- A missing figure is a dash. Control characters in names, which clients choose, are shown as escapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policies.escaping import escaped
from proxy.cli import tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = dict[str, Any]

NONE: Final = "-"
PRINCIPALS: Final = (
    "user", "client id", "conns", "req/s", "limit", "used", "waits", "throttled", "now", "p50 ms", "p99 ms",
)  # fmt: skip
SHARED: Final = "shared"
"""Shown as the limit of a client that shares a bucket; the line of the bucket above has the limit."""
CONNECTIONS: Final = (
    "id",
    "client",
    "user",
    "proof",
    "client id",
    "node",
    "in flight",
    "unsent",
    "muted",
    "age s",
)
WAITING: Final = ("connection", "user", "client id", "api", "kind", "age ms", "waits for")
DECISIONS: Final = ("time", "user", "client id", "api", "what", "ms", "detail")


def principals(said: Row) -> list[tuple[tuple[str, ...], bool]]:
    """Return the cells of each line, in the order of PRINCIPALS, and whether its client is throttled.

    Clients that share a bucket follow a line for the bucket, which has the sums of those that are listed.
    """
    lines: list[tuple[tuple[str, ...], bool]] = []
    rows, buckets = said["principals"], said["buckets"]
    begun: set[int] = set()
    for row in rows:
        place = row["bucket"]
        bucket = None if place is None else buckets[place]
        shared = bucket is not None and bucket["principals"] > 1
        if bucket is not None and shared and place not in begun:
            begun.add(place)
            sharing = [each for each in rows if each["bucket"] == place]
            lines.append((_bucket(bucket, sharing), bucket["wait_ms"] > 0))
        limits = (SHARED, NONE, NONE) if shared else limit(bucket)
        lines.append((principal(row, limits), bool(row["throttled_now"])))
    return lines


def limit(bucket: Row | None) -> tuple[str, str, str]:
    """Return the limit of a bucket, its use, and its waits: how long, and how many requests."""
    if bucket is None:
        return NONE, NONE, NONE
    of = bucket["limit"]
    shown = (
        f"{format_number(of)}/s" if bucket["quota"] == "request_rate" else f"{format_size(of)}/s"
    )
    if bucket["quota"] != "request_rate":
        shown += " in" if bucket["quota"].startswith("producer") else " out"
    waits = format_number(bucket["wait_ms"]) + " ms" if bucket["wait_ms"] else NONE
    if bucket["waiting"]:
        waits += f", {bucket['waiting']} held"
    return shown, f"{bucket['used_percent']:.0f} %", waits


def _bucket(bucket: Row, sharing: Sequence[Row]) -> tuple[str, ...]:
    return (
        f"{len(sharing)} clients",
        format_name(bucket["entity"]),
        str(sum(each["connections"] for each in sharing)),
        format_number(sum(each["requests_per_s"] for each in sharing)),
        *limit(bucket),
        str(sum(each["throttled"] for each in sharing)),
        str(sum(each["throttled_now"] for each in sharing)),
        *(NONE, NONE),
    )


def principal(row: Row, limits: tuple[str, str, str]) -> tuple[str, ...]:
    """Return the cells of a client, in the order of PRINCIPALS; `limits` is from `limit`."""
    quantiles = row["throttle_ms"]
    return (
        format_name(row["user"]),
        format_name(row["client_id"]),
        str(row["connections"]),
        format_number(row["requests_per_s"]),
        *limits,
        str(row["throttled"]),
        str(row["throttled_now"]),
        format_number(quantiles["p50"]),
        format_number(quantiles["p99"]),
    )


def connection(row: Row) -> tuple[str, ...]:
    """Return the cells of a connection, in the order of CONNECTIONS."""
    return (
        str(row["id"]),
        row["client"],
        format_name(row["user"]),
        row["proof"] or NONE,
        format_name(row["client_id"]),
        "bootstrap" if row["node"] is None else str(row["node"]),
        str(row["in_flight"]),
        str(row["client_unsent_bytes"] + row["broker_unsent_bytes"]),
        ",".join(row["muted"]) or NONE,
        format_number(row["age_s"]),
    )


def waiting(row: Row) -> tuple[str, ...]:
    """Return the cells of a waiting request, in the order of WAITING."""
    named = (format_name(row["user"]), format_name(row["client_id"]))
    told = (row["api"], row["kind"], str(row["age_ms"]), format_name(row["waits_for"]))
    return (str(row["session"]), *named, *told)


def decision(row: Row) -> tuple[str, ...]:
    """Return the cells of a decision, in the order of DECISIONS."""
    from datetime import UTC, datetime  # noqa: PLC0415 - start-up of other commands

    time = datetime.fromtimestamp(row["ts_ms"] / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    named = (format_name(row["user"]), format_name(row["client_id"]))
    return (time, *named, row["api"], row["what"], str(row["ms"]), format_name(row["detail"]))


def status(now: Row, purgatory: Row, width: int | None = None) -> str:
    """Return the state of the process in a few lines, folded to `width` cells."""
    reload = now["last_reload"]
    lag = now["loop_lag_ms"]
    used = f"CPU {format_number(now['cpu_percent'])} %, memory {format_size(now['rss_bytes'])}"
    waits = [f"{purgatory['holds']} held", f"{purgatory['produces']} produces"]
    muted = [f"{count} {why}" for why, count in now["muted"].items()]
    lines = [
        f"Sluice {now['version']}, config {now['config_hash']}" + (", draining" * now["draining"]),
        f"{now['connections']} connections, {format_number(now['requests_per_s'])} requests/s",
        f"loop lag {format_number(lag['p50'])} ms, p99 {format_number(lag['p99'])} ms; {used}",
        f"waiting: {', '.join(waits)}, {purgatory['fetches']} fetches"
        + longest(purgatory["oldest"], width),
        "memory pools: " + "; ".join(map(pool, now["pools"])),
        "not read: " + (", ".join(muted) or "none"),
    ]
    if reload is not None:
        lines.append("the last reload " + ("succeeded" if reload["ok"] else "failed"))
    dropped = now["dropped"]
    if any(dropped.values()):
        lines.append(f"dropped: {dropped['spans']} spans, {dropped['usage_rows']} usage rows")
    return tables.wrap("\n".join(lines), width)


def longest(oldest: list[Row], width: int | None = None) -> str:
    """Return in words which request has waited longest; empty if none waits."""
    if not oldest:
        return ""
    row = oldest[0]
    user, client_id, waits_for = (
        tables.shorten(
            each,
            tables.MAX_NAME_CELLS if width is None else max(tables.MIN_NAME_CELLS, width // 3),
        )
        for each in map(format_name, (row["user"], row["client_id"], row["waits_for"]))
    )
    return f"; longest {format_number(row['age_ms'])} ms: {row['api']} of {user}/{client_id}, for {waits_for}"


def pool(row: Row) -> str:
    """Return a memory pool in words."""
    of = f" of {format_size(row['size_bytes'])}" if row["size_bytes"] is not None else ""
    dry = (
        f", dry {format_number(row['depleted_percent'])} % of the time"
        if row["depleted_ms"]
        else ""
    )
    return f"{row['name']} {format_size(row['used_bytes'])}{of}{dry}"


def format_name(text: str | None) -> str:
    """Return a client's name with control characters escaped, or a dash if it is empty."""
    return escaped(text) if text else NONE


def format_number(value: float | None) -> str:
    """Return a number with one decimal at most, and none if it is large; a dash for None."""
    if value is None:
        return NONE
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.1f}"


def format_size(size_bytes: int) -> str:
    """Return a size in the largest unit that gives at least 1."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
