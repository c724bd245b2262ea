"""Small tables of a minute, as `ingest` writes them: alice is throttled, bob has no quota."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.support.pipeline.delta_tables import write_quality, write_rows
from tests.support.telemetry.usage_rows import START_MS, usage_row

SECONDS = 60
LIMIT = {"enforcement": "entity", "quota_entity": "user=alice", "quota_rate": 30.0}


def write_report_tables(spark: SparkSession, folder: Path) -> None:
    """Write the families entity, api and instance, a gap and a line in quarantine."""
    for family, rows in {"entity": _entity(), "api": _api(), "instance": _instance()}.items():
        write_rows(spark, folder, family, rows)
    write_quality(spark, folder, lost={"api": 3}, lines=[("torn", "api")])


def _entity() -> list[dict[str, Any]]:
    rows = []
    for n in range(SECONDS):
        is_busy = n % 10 < 8
        sent = 30 if is_busy else 8
        delays = {"throttled": 20, "throttle_ms": 1400, "throttle_ms_max": 161, "blocked_ms": 2500}
        used = {"requests": sent, "charged": sent, "ts_ms": START_MS + n * 1000, "connections": 3}
        rows += [
            usage_row("entity", user="alice", client_id="app", **used, **LIMIT, **(delays if is_busy else {})),
            usage_row("entity", user="bob", client_id="etl", **(used | {"requests": 120, "charged": 120})),
        ]  # fmt: skip
    return rows


def _api() -> list[dict[str, Any]]:
    waited = {"throttle_i": [128], "throttle_n": [20], "upstream_i": [104], "upstream_n": [30]}
    return [
        usage_row("api", user="alice", client_id="app", requests=30, ts_ms=START_MS + n, **waited)
        for n in range(0, SECONDS * 1000, 10_000)
    ]


def _instance() -> list[dict[str, Any]]:
    sizes = {"request_pool_size_bytes": 1000, "response_pool_size_bytes": 1000}
    return [
        usage_row("instance", ts_ms=START_MS + n * 1000, request_pool_used_bytes=n * 10, **sizes)
        for n in range(SECONDS)
    ]
