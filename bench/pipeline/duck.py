"""`python -m bench.pipeline.duck`: the aggregations of two jobs as DuckDB runs them, over the same tables.

Its arguments are a query of QUERIES, the folder of the tables, the number of threads and of runs; it prints a Timed.
"""

import json
import os
import sys
import time
from dataclasses import asdict
from typing import Final

import duckdb

from bench.harness.usage import peak_bytes
from bench.pipeline.run import Timed

_STAGES: Final = ("upstream", "receive", "memory", "throttle", "purgatory")
_ENTITY_SUMS: Final = ", ".join(
    f"sum({name}) as {name}"
    for name in (
        *("requests", "charged", "exempt", "request_bytes", "charged_bytes", "exempt_bytes"),
        *("response_bytes", "throttled", "throttle_ms", "blocked_ms", "mute_ms"),
    )
)
_API_SUMS: Final = ", ".join(
    f"sum({name}) as {name}"
    for name in ("requests", "replied", "no_reply", "answered", "expired", "disconnected")
)
_BUCKETS: Final = " union all ".join(
    f"select user, '{stage}' as stage, unnest({stage}_i) as bucket, unnest({stage}_n) as count from api"
    f" where len({stage}_i) > 0"
    for stage in _STAGES
)
_QUANTILES: Final = """
    select user, stage, max(total) as waited,
        min(pow(2, bucket / 8.0)) filter (where seen >= 0.5 * total) as p50_us,
        min(pow(2, bucket / 8.0)) filter (where seen >= 0.99 * total) as p99_us
    from (select *, sum(count) over (partition by user, stage order by bucket) as seen,
                 sum(count) over (partition by user, stage) as total
          from (select user, stage, bucket, sum(count) as count from buckets group by all))
    group by all
"""
QUERIES: Final = {
    "usage": [
        f"select user, {_ENTITY_SUMS} from entity group by user",
        f"select user, {_API_SUMS} from api group by user",
        f"with buckets as ({_BUCKETS}) {_QUANTILES}",
    ],
}
"""The sums and the merged histograms of `usage` by user."""


def connect(tables: str, threads: int) -> duckdb.DuckDBPyConnection:
    """Return a connection that has the tables as views."""
    connection = duckdb.connect(config={"threads": threads})
    for family in ("entity", "api"):
        files = f"{tables}/{family}/*/*/*.parquet"
        connection.execute(f"create view {family} as from read_parquet('{files}')")
    return connection


def run(query: str, tables: str, threads: int, runs: int) -> Timed:
    """Run a query so many times."""
    connection = connect(tables, threads)
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        for text in QUERIES[query]:
            connection.execute(text).fetchall()
        seconds.append(time.perf_counter() - began)
    return Timed(query, seconds, peak_bytes(os.getpid()))


if __name__ == "__main__":
    _query, _tables, _threads, _runs = sys.argv[1:]
    json.dump(asdict(run(_query, _tables, int(_threads), int(_runs))), sys.stdout)
