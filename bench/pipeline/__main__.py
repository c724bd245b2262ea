"""`python -m bench.pipeline`: time and memory of the jobs on Spark; writes its section of bench/RESULTS.md.

It makes tables of 5 and 20 million rows (once; `--data` is their folder), runs the commands of `sluice-pipeline` in a
session of its own for each job, and the aggregations in DuckDB beside them. A job that fails, or takes longer than
MAX_SECONDS, is named in the section, and the others are measured. The exit code is 1 only if one failed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from bench.harness import ROOT, BenchError
from bench.harness.command import options, prints_errors
from bench.harness.machine import describe, today
from bench.harness.markdown import write_section
from bench.pipeline.made_tables import FOLDERS, rows_in
from bench.pipeline.report import AGAIN, FIRST, LARGE, Found, Job, section
from bench.pipeline.run import FRESH, Plan, Step, Timed

DATA: Final = ROOT / ".cache" / "bench-pipeline"
RUNS: Final = 5
"""Of each job, on the smaller tables, after the first; of `ingest` one, because it takes longest."""
MAX_SECONDS: Final = 1200
"""The most that a session may take."""
FIT: Final = "recommend --no-backtest"
IN_DUCKDB: Final = {"usage": "usage"}
"""The queries of DuckDB that do the aggregations of a job."""
ON_ONE_CORE: Final = ("usage", "recommend", "whatif")
TWO_CORES: Final = "local[2]"
ONE_CORE: Final = "local[1]"


@dataclass(frozen=True, slots=True)
class Data:
    """The folders of the input, and how many rows or spans they have."""

    small: Path
    large: Path
    log: Path
    traces: Path
    quotas: Path
    counts: dict[str, int] = field(default_factory=dict)


def commands(data: Data) -> dict[str, tuple[list[str], list[str] | None]]:
    """Return the command of each job, and the same for the larger tables if there is one."""

    def both(*command: str) -> tuple[list[str], list[str]]:
        small, large = (
            [str(folder) if each == "TABLES" else each for each in command]
            for folder in (data.small, data.large)
        )
        return small, large

    return {
        "ingest": (["ingest", str(data.log), FRESH], None),
        "usage": both("usage", "TABLES", "--by", "user", "--json"),
        "recommend": both("recommend", "TABLES", "--output", FRESH),
        FIT: (["recommend", str(data.small), "--output", FRESH, "--no-backtest"], None),
        "whatif": both("whatif", "TABLES", "--quotas", str(data.quotas), "--json"),
        "traces": (["traces", str(data.traces), "--json"], None),
    }


def make(folder: Path, rows: int, large: int, log_rows: int, spans: int) -> Data:
    """Make the input, as far as it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {"small": rows, "large": large, "log": log_rows, "traces": spans}
    paths = {name: folder / FOLDERS[name].format(count=count) for name, count in names.items()}
    made = child("bench.pipeline.made_tables", [str(folder), *map(str, names.values())])
    counts = json.loads(made)
    for name in ("small", "large"):
        counts[name] = rows_in(paths[name])["entity"]
    return Data(**paths, quotas=folder / FOLDERS["quotas"], counts=counts)


def measure(data: Data, names: list[str], runs: int) -> tuple[list[Job], dict[str, str]]:
    """Measure these jobs with two cores, with one, and in DuckDB; return their figures, and why others failed."""
    found: list[Job] = []
    failed: dict[str, str] = {}
    for name in names:
        with _noted(failed, name):
            found.append(_measured(data, name, runs, failed))
            print(f"{name}: {found[-1].told()}", flush=True)
    return found, failed


@contextmanager
def _noted(failed: dict[str, str], name: str) -> Iterator[None]:
    """Note and print why a part of the benchmark failed."""
    try:
        yield
    except BenchError as error:
        failed[name] = str(error)
        print(f"{name}: {error}", flush=True)


def _measured(data: Data, name: str, runs: int, failed: dict[str, str]) -> Job:
    small, large = commands(data)[name]
    steps = [Step(FIRST, small, 1), Step(AGAIN, small, 1 if name == "ingest" else runs)]
    if large is not None:
        steps.append(Step(LARGE, large, 1))
    job = Job(name, *_counts(data, name), spark=_spark(Plan(TWO_CORES, steps)))
    if name in ON_ONE_CORE:
        steps = [Step(FIRST, small, 1), Step(AGAIN, small, 1)]
        with _noted(failed, f"{name} on one core"):
            job.one_core = _spark(Plan(ONE_CORE, steps))[AGAIN]
    if name in IN_DUCKDB:
        for size in job.spark.keys() - {FIRST}:
            tables = data.large if size == LARGE else data.small
            with _noted(failed, f"{name} in DuckDB"):
                told = child("bench.pipeline.duck", [IN_DUCKDB[name], str(tables), "2", "2"])
                job.duck[size] = _timed(json.loads(told))
    return job


def _counts(data: Data, name: str) -> tuple[int, int]:
    if name in ("ingest", "traces"):
        return data.counts["log" if name == "ingest" else "traces"], 0
    return data.counts["small"], data.counts["large"]


def _spark(plan: Plan) -> dict[str, Timed]:
    told = json.loads(child("bench.pipeline.run", [], json.dumps(asdict(plan))))
    return {each["name"]: _timed(each) for each in told}


def _timed(told: dict[str, object]) -> Timed:
    return Timed(**told)  # type: ignore[arg-type]  # JSON of a Timed


def child(module: str, arguments: list[str], told: str = "") -> str:
    """Run a module of the benchmark in a process of its own; return the last line of its output.

    Raises:
        BenchError: it failed, or took longer than MAX_SECONDS.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            input=told,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=MAX_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(
            f"{module} {' '.join(arguments)}: not done after {MAX_SECONDS} s"
        ) from error
    if done.returncode:
        words = " | ".join(done.stderr.strip().splitlines()[-4:])
        raise BenchError(f"{module} {' '.join(arguments)}: exit code {done.returncode}: {words}")
    return done.stdout.rpartition("\n")[2] or done.stdout


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Measure and write; return the exit code."""
    numbers = {"rows": 5_000_000, "large": 20_000_000, "log_rows": 5_000_000, "spans": 1_000_000}
    parser = options("bench.pipeline", __doc__, runs=RUNS, **numbers)
    parser.add_argument("--jobs", default="", help="comma-separated; default: all")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the made-up tables")
    given = parser.parse_args(arguments)
    data = make(given.data, given.rows, given.large, given.log_rows, given.spans)
    wanted = [name for name in given.jobs.split(",") if name] or list(commands(data))
    if unknown := set(wanted) - set(commands(data)):
        raise BenchError(
            f"unknown job {', '.join(sorted(unknown))}; known: {', '.join(commands(data))}"
        )
    before = os.getloadavg()[0]
    jobs, failed = measure(data, wanted, given.runs)
    facts = {
        "date": today(),
        "load before": f"{before:.1f} processes on {os.cpu_count()} cores",
        "input": "400 clients on 4 instances; JSON of ingest and traces uncompressed",
        "quotas of whatif": "20 to 200 requests/s for each user",
        **describe(),
    }
    found = section(Found(jobs, failed, facts))
    print(found, end="\n\n")
    write_section(given.out, "pipeline", found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
