"""`python -m bench.pipeline.large`: a month of forty teams on a Spark cluster; writes its section of bench/RESULTS.md.

Rules:
- The usage log is made once (`made_log.py`). Each day is handed to `ingest` when the day before is in the tables.
- The jobs run when a third of the days are there, and when all are. A single day is run three times with tables of its
  own: on one worker, on two, and with DENSE times the rows.
- The rows and requests in the tables are those of the log, or the benchmark fails.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from bench.harness import ROOT, BenchError
from bench.harness.command import options, prints_errors
from bench.harness.machine import describe, today
from bench.harness.markdown import write_section
from bench.pipeline.cluster_bench import WORKER_MEMORY, ClusterBench
from bench.pipeline.large_report import INGEST, Found, section
from bench.pipeline.made_log import DAYS, day_names, write_log, write_quotas
from bench.pipeline.made_month import DAY_HOURS, Month
from bench.pipeline.made_traces import make_traces
from tests.support.pipeline.spark_cluster import spark_cluster

DATA: Final = ROOT / ".cache" / "bench-pipeline-large"
ROWS: Final = 200_000_000
ROWS_OF_DAY: Final = ROWS // 30
DENSE: Final = 3
SPANS: Final = 100_000
TOTALS: Final = "usage TABLES --by day --json"
JOBS: Final = {
    "usage": "usage TABLES --by user --json",
    "usage by hour": "usage TABLES --by hour,user --json",
    "recommend": "recommend TABLES --output OUT/quotas.yaml",
    "whatif": "whatif TABLES --quotas QUOTAS --json",
    "report": "report TABLES --output OUT/report.html",
}
LAST: Final = {
    "traces": "traces TRACES --json",
    "stream --once": "stream DAY OUT/streamed --checkpoint OUT/checkpoint --once",
    "maintain": "maintain TABLES --retain 400d",
}
"""What runs once, after the whole month; `stream` over its last day."""


def measure(folder: Path, rows: int, days: int) -> Found:
    """Make the log, run everything and return the figures."""
    month, dense = Month(rows, days * DAY_HOURS), Month(rows // days * DENSE, DAY_HOURS)
    log, dense_log = (folder / f"log-{each.rows}-{each.hours}" for each in (month, dense))
    found = Found(days, write_log(log, month), write_log(dense_log, dense))
    print(f"made: {found.made}", flush=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=folder) as run:
        here = Path(run)
        with spark_cluster(here / "two", memory=WORKER_MEMORY) as master:
            found.month = _played(master, here / "month", log, days, found.made)
            found.two_workers = _played(master, here / "day", log)
            found.dense = _played(master, here / "dense", dense_log)
        with spark_cluster(here / "one", workers=1, memory=WORKER_MEMORY) as master:
            found.one_worker = _played(master, here / "alone", log)
    return found


def _played(
    master: str, folder: Path, log: Path, days: int = 1, expected: dict[str, Any] | None = None
) -> ClusterBench:
    """Ingest the first days of a log one by one and run the jobs; with `expected` also the last ones, and check."""
    names = day_names(days)
    out = folder / "out"
    out.mkdir(parents=True)
    bench = ClusterBench(master, folder, _places(folder, log / DAYS / names[-1]))
    for count, name in enumerate(names, 1):
        day = log / DAYS / name
        for file in day.rglob("*.zst"):
            link = folder / "log" / file.relative_to(day)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.hardlink_to(file)
        bench.run(INGEST, "ingest LOG TABLES", count)
        if count in (days // 3, days):
            for job, command in JOBS.items():
                bench.run(job, command, count)
    if expected is not None:
        for job, command in LAST.items():
            bench.run(job, command, days)
        _check(bench.run("usage by day", TOTALS, days), expected)
    return bench


def _places(folder: Path, day: Path) -> dict[str, object]:
    """Make what commands are given beside the log; return all paths by the words that stand for them."""
    traces = folder.parent / f"traces-{SPANS}.jsonl"
    make_traces(traces, SPANS)
    return {
        "LOG": folder / "log",
        "TABLES": folder / "tables",
        "OUT": folder / "out",
        "DAY": day,
        "TRACES": traces,
        "QUOTAS": write_quotas(folder.parent / "quotas.yaml"),
    }


def _check(printed: str, expected: dict[str, Any]) -> None:
    """Compare the usage of all days with what was made.

    Raises:
        BenchError: they differ, or rows are missing or set aside.
    """
    told = json.loads(printed)
    requests = sum(line["requests"] for line in told["usage"])
    if requests != expected["requests"] or any(told["quality"].values()):
        raise BenchError(
            f"the tables have {requests} requests and {told['quality']}, expected {expected['requests']}"
            " and nothing missing"
        )


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Measure and write; return the exit code."""
    parser = options("bench.pipeline.large", __doc__, rows=float(ROWS), days=0)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the log and the tables")
    given = parser.parse_args(arguments)
    rows = int(given.rows)
    days = given.days or max(1, round(rows / ROWS_OF_DAY))
    given.data.mkdir(parents=True, exist_ok=True)
    before = os.getloadavg()[0]
    found = measure(given.data.resolve(), rows, days)
    facts = {
        "date": today(),
        "load before": f"{before:.1f} processes on {os.cpu_count()} cores",
        **describe(),
    }
    text = section(found, facts)
    print(text, end="\n\n")
    write_section(given.out, "pipelinelarge", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
