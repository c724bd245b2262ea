"""`python -m bench.pipeline`: time and memory of the jobs on Spark; writes its section of bench/RESULTS.md.

It makes the usage log of a busy day and of four days, and tables of them (once; `--data` is their folder). Then it runs
the commands of `sluice-pipeline` in a session of its own for each job, and the aggregations in DuckDB beside them. A
job that fails, or takes longer than MAX_SECONDS, is named in the section, and the others are measured. The exit code is
1 only if one failed.
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
from bench.pipeline.made_log import DAYS, write_quotas
from bench.pipeline.made_month import DAY_HOURS
from bench.pipeline.made_traces import make_traces
from bench.pipeline.report import AGAIN, FIRST, LARGE, Found, Job, section
from bench.pipeline.run import FRESH, Plan, Step, Timed

DATA: Final = ROOT / ".cache" / "bench-pipeline"
ROWS: Final = 12_500_000
"""A day's rows of all families; two in five are those of `entity`."""
LARGE_DAYS: Final = 4
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


def make(folder: Path, rows: int, spans: int) -> Data:
    """Make the input, as far as it is not there: `rows` of all families a day."""
    folder.mkdir(parents=True, exist_ok=True)
    logs, tables, counts = [], [], {}
    for name, days in (("small", 1), ("large", LARGE_DAYS)):
        logs.append(folder / f"log-{rows * days}-{days}")
        words = [str(logs[-1]), str(rows * days), str(days * DAY_HOURS)]
        counts[name] = int(json.loads(child("bench.pipeline.made_log", words))["entity"])
        tables.append(folder / f"tables-{rows * days}-{days}")
        if not tables[-1].exists():
            ingest = ["ingest", str(logs[-1] / DAYS), str(tables[-1])]
            child(
                "bench.pipeline.run", [], json.dumps(asdict(Plan(TWO_CORES, [Step("", ingest, 1)])))
            )
    traces = folder / f"traces-{spans}.jsonl"
    counts["traces"] = make_traces(traces, spans)
    quotas = write_quotas(folder / "quotas.yaml")
    return Data(tables[0], tables[1], logs[0] / DAYS, traces, quotas, counts)


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
    if name == "traces":
        return data.counts["traces"], 0
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
    parser = options("bench.pipeline", __doc__, runs=RUNS, rows=ROWS, spans=1_000_000)
    parser.add_argument("--jobs", default="", help="comma-separated; default: all")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the logs and tables")
    given = parser.parse_args(arguments)
    data = make(given.data, given.rows, given.spans)
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
        "input": "240 clients of 40 teams on 4 instances",
        "quotas of whatif": "20 to 410 requests/s for each team",
        **describe(),
    }
    found = section(Found(jobs, failed, facts))
    print(found, end="\n\n")
    write_section(given.out, "pipeline", found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
