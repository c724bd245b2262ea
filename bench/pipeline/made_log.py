"""`python -m bench.pipeline.made_log FOLDER ROWS HOURS`: writes the usage log of a made-up month once.

Rules:
- The lines are those of Sluice: all columns of the family, in their order. A file is closed every ROTATE_S seconds, and
  compressed by zstd, as a job of the host would do it.
- `seq` counts from 1 in each boot, and an instance starts anew every seventh day at its own hour.
- An instance is written by one process from its first hour to its last; as many run as there are cores.
- DAY folders are `FOLDER/days/DAY/FAMILY/dt=DAY`, so that days can be handed to `ingest` one by one. FOLDER/README has
  the numbers of rows and of requests, which the jobs must find again; it is written last.
"""

import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import numpy as np
import zstandard
from pyspark.sql.types import ArrayType, StringType

from bench.pipeline.made_month import (
    CLIENTS,
    CLIENTS_OF_TEAM,
    DAY_HOURS,
    HOUR_S,
    KINDS,
    START_MS,
    TEAMS,
    Columns,
    Month,
    hour_of,
)
from pipeline.schema import DELAY, FAMILIES, VERSION, WINDOW_MS

ROTATE_S: Final = 600
ABOUT: Final = "README"
DAYS: Final = "days"
_LEVEL: Final = 3
_BOOT_HOURS: Final = 7 * DAY_HOURS
_API: Final = {0: "Produce", 1: "Fetch", 3: "Metadata"}
_NULL: Final = {"enforcement", "quota_entity", "quota_rate", "quota_rev"}
_FIXED: Final[dict[str, object]] = {"v": VERSION, "window_ms": WINDOW_MS, "version": "0.1.0"} | {
    "request_pool_size_bytes": 1 << 28,
    "response_pool_size_bytes": 1 << 28,
    "step_us_p50": 40.0,
    "step_us_p99": 900.0,
    "sessions": 120,
}


def write_log(folder: Path, month: Month) -> dict[str, object]:
    """Write the usage log, once; return what is in it: rows by family, requests, and bytes of the files."""
    about = folder / ABOUT
    if not about.exists():
        began = time.perf_counter()
        spawn = get_context("spawn")  # a fork would copy the locks of a Spark session's threads
        with ProcessPoolExecutor(os.cpu_count(), spawn) as pool:
            found = pool.map(_write_instance, *zip(*_tasks(folder, month), strict=True))
            counts = sum(found, Counter[str]())
        files = list((folder / DAYS).rglob("*.zst"))
        told: dict[str, object] = dict(counts)
        told |= {"files": len(files), "bytes": sum(file.stat().st_size for file in files)}
        about.write_text(json.dumps(told | {"seconds": round(time.perf_counter() - began, 1)}))
    known: dict[str, object] = json.loads(about.read_text())
    return known


def write_quotas(file: Path) -> Path:
    """Write a quota file with a request rate for every team, less than many of them need; return the file."""
    quotas = [
        {"user": f"team-{team:02}", "request_rate": 20.0 + 10 * team} for team in range(TEAMS)
    ]
    file.write_text(json.dumps({"version": 1, "quotas": quotas}))
    return file


def day_names(days: int) -> list[str]:
    """Return the days of a month as they are written."""
    first = datetime.fromtimestamp(START_MS / 1000, UTC)
    return [f"{first + timedelta(days=day):%Y-%m-%d}" for day in range(days)]


def _tasks(folder: Path, month: Month) -> Iterator[tuple[Path, Month, int]]:
    return ((folder, month, instance) for instance in range(month.instances))


def _write_instance(folder: Path, month: Month, instance: int) -> Counter[str]:
    """Write the files of an instance; return how many rows each family has, and the requests of `entity`."""
    counts: Counter[str] = Counter()
    days = day_names(-(-month.hours // DAY_HOURS))
    seqs: Counter[str] = Counter()
    boot = 0
    for hour in range(month.hours):
        now = (hour + _BOOT_HOURS - 10 - instance) // _BOOT_HOURS
        if now != boot:
            boot = now
            seqs.clear()
        name = f"pod-{instance}", f"019aa5c1{boot:08x}"
        for family, columns in hour_of(month, instance, hour).items():
            count = len(columns["second"])
            lines = lines_of(family, columns, name, seqs[family])
            to = folder / DAYS / days[hour // DAY_HOURS] / family / f"dt={days[hour // DAY_HOURS]}"
            _write(to, "-".join((family, *name)), hour, columns, lines)
            seqs[family] += count
            counts[family] += count
            if family == "entity":
                counts["requests"] += int(columns["requests"].sum())
    return counts


def lines_of(family: str, columns: Columns, name: tuple[str, str], last_seq: int) -> list[str]:
    """Return the JSON lines of rows, without line ends. `name` is instance and boot."""
    values = _values(family, columns, last_seq)
    fixed: Mapping[str, object] = _FIXED | dict(zip(("instance", "boot"), name, strict=True))
    parts, given = [], []
    for each in FAMILIES[family]:
        if each.name in values:
            parts.append(f'"{each.name}":%s')
            given.append(values[each.name])
            continue
        none: object = 0
        if each.name in _NULL:
            none = None
        elif isinstance(each.dataType, ArrayType):
            none = []
        elif isinstance(each.dataType, StringType):
            none = family
        told = json.dumps(fixed.get(each.name, none), separators=(",", ":"))
        parts.append(f'"{each.name}":{told}')
    line = "{" + ",".join(parts) + "}"
    return list(map(line.__mod__, zip(*given, strict=True)))


def _values(family: str, columns: Columns, last_seq: int) -> dict[str, list[object]]:
    """Return the columns that differ from row to row, as texts and numbers of JSON."""
    count = len(columns["second"])
    values: dict[str, list[object]] = {
        name: column.tolist()
        for name, column in columns.items()
        if name not in ("client", "second", "low", "over", "quota_rate")
    }
    values["seq"] = list(range(last_seq + 1, last_seq + count + 1))
    values["ts_ms"] = (START_MS + columns["second"] * 1000).tolist()
    if "client" in columns:
        clients = columns["client"].tolist()
        values["user"] = [_USERS[client] for client in clients]
        if family == "topic":
            values["topic"] = [_TOPICS[client] for client in clients]
        else:
            values["client_id"] = [_CLIENT_IDS[client] for client in clients]
    if family == "entity":
        rates = columns["quota_rate"].tolist()
        values["quota_rate"] = [rate or "null" for rate in rates]
        values["quota_rev"] = ['"0a1b2c3d"' if rate else "null" for rate in rates]
        values["enforcement"] = ['"entity"' if rate else "null" for rate in rates]
        values["quota_entity"] = [
            f'"user={_USERS[client][1:-1]}"' if rate else "null"
            for client, rate in zip(clients, rates, strict=True)
        ]
    if family == "api":
        values["api"] = [f'"{_API[key]}"' for key in values["api_key"]]  # type: ignore[index]  # whole numbers
        lows, over = columns["low"].tolist(), columns["over"].tolist()
        requests = columns["requests"].tolist()
        values["upstream_i"] = [_buckets(*each) for each in zip(lows, requests, strict=True)]
        values["upstream_n"] = [_counts(each) for each in requests]
        late = list(zip(lows, requests, over, strict=True))
        for stage in ("throttle", DELAY):
            values[f"{stage}_i"] = [
                _buckets(low + 40, n) if is_late else "[]" for low, n, is_late in late
            ]
            values[f"{stage}_n"] = [_counts(n) if is_late else "[]" for _, n, is_late in late]
    return values


@cache
def _buckets(low: int, count: int) -> str:
    """Return the buckets of so many requests: five, or fewer."""
    return json.dumps(list(range(low, low + min(count, 5))), separators=(",", ":"))


@cache
def _counts(count: int) -> str:
    buckets = min(count, 5)
    counts = [count // buckets + (nth < count % buckets) for nth in range(buckets)]
    return json.dumps(counts, separators=(",", ":"))


def _write(folder: Path, name: str, hour: int, columns: Columns, lines: list[str]) -> None:
    """Write the lines of an hour into files of ROTATE_S seconds each; a file without a row is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    starts = hour * HOUR_S + np.arange(0, HOUR_S + 1, ROTATE_S)
    bounds = np.searchsorted(columns["second"], starts).tolist()
    for nth, (first, end) in enumerate(itertools.pairwise(bounds)):
        if first < end:
            number = hour * (HOUR_S // ROTATE_S) + nth + 1
            text = "\n".join(lines[first:end]).encode() + b"\n"
            packed = zstandard.ZstdCompressor(_LEVEL).compress(text)
            (folder / f"{name}-{number:06}.jsonl.zst").write_bytes(packed)


def _texts(form: str) -> list[str]:
    """Return a name for each client, quoted."""
    return [
        json.dumps(
            form.format(
                team=client // CLIENTS_OF_TEAM,
                nth=client % CLIENTS_OF_TEAM,
                kind=KINDS[client % CLIENTS_OF_TEAM],
            )
        )
        for client in range(CLIENTS)
    ]


_USERS: Final = _texts("team-{team:02}")
_CLIENT_IDS: Final = _texts("team-{team:02}-{kind}-{nth}")
_TOPICS: Final = _texts("team-{team:02}.events-{nth}")


if __name__ == "__main__":
    _folder, _rows, _hours = sys.argv[1:]
    print(json.dumps(write_log(Path(_folder), Month(int(_rows), int(_hours)))))
