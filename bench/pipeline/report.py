"""The results of `python -m bench.pipeline`, and its section of RESULTS.md.

Every row is written; a goal that was not met is marked.
"""

import statistics
from dataclasses import dataclass, field
from typing import Final

from bench.harness.markdown import facts_line, one_line, table
from bench.pipeline.run import Timed

GOALS_S: Final = {"usage": 4.0, "recommend": 8.0, "whatif": 10.0}
"""For five million rows of `entity` and as many of other families, warm, on two cores."""
GROWTH: Final = 4.4
"""The most that four times the rows may take, by the time of the smaller tables."""
FIRST: Final = "first"
AGAIN: Final = "again"
LARGE: Final = "large"
"""The steps of a job's session: its first run, warm runs, and a run over the larger tables."""
METHOD: Final = """\
Made by `make bench-pipeline`: the commands of `sluice-pipeline`, with everything that they print, in a local session
with two threads. *First* is the first run of a session, which compiles its queries and starts the workers of Python; a
session takes 5 to 10 s more to start. *Warm* is the median of the runs after it. Memory is the sum of the peaks of
driver, JVM (its heap may take 2 GiB) and workers of Python."""
DUCK: Final = """\
DuckDB runs the aggregations of `usage` over the same files: the sums and the merged histograms by user.
On one machine it is faster: Spark pays for exchanges between tasks and for rows that go to Python and back. {turn}"""
TURN: Final = (
    "Spark is for tables that do not fit one machine, for many machines, and for streams. DuckDB reads the Parquet"
    " files of the Delta tables as they are, because nothing has been replaced in them."
)


@dataclass(slots=True)
class Job:
    """The figures of one job. `rows` and `large_rows` are its input; 0: it has no larger one."""

    name: str
    rows: int
    large_rows: int
    spark: dict[str, Timed]
    one_core: Timed | None = None
    duck: dict[str, Timed] = field(default_factory=dict)

    @property
    def warm_s(self) -> float:
        """Return the median of the warm runs."""
        return statistics.median(self.spark[AGAIN].seconds)

    @property
    def growth(self) -> float | None:
        """Return the time of the larger tables by that of the smaller ones; None if there are none."""
        return self.spark[LARGE].seconds[0] / self.warm_s if LARGE in self.spark else None

    def told(self) -> str:
        """Return the seconds of all runs in one line."""
        return ", ".join(
            f"{name} {'/'.join(f'{s:.1f}' for s in timed.seconds)} s"
            for name, timed in self.spark.items()
        )


@dataclass(frozen=True, slots=True)
class Found:
    """The results of one run."""

    jobs: list[Job]
    failed: dict[str, str]
    """Why jobs could not be measured, by name."""
    facts: dict[str, str]


def section(found: Found) -> str:
    """Return the section of RESULTS.md."""
    parts = ["## The data pipeline", METHOD]
    parts.append(
        table(
            ["job", "input", "first, s", "warm, s", "rows/s", "memory", "goal"],
            [_row(job) for job in found.jobs],
        )
    )
    parts += [f"`{name}` was not measured: {one_line(why)}" for name, why in found.failed.items()]
    grown = [job for job in found.jobs if job.growth is not None]
    if grown:
        parts.append(
            f"Four times the rows, and one core instead of two. The goal is {GROWTH:g} times the time."
        )
        parts.append(
            table(
                ["job", "input", "warm, s", "times the time", "memory", f"≤ {GROWTH:g}"],
                [_large_row(job) for job in grown],
            )
        )
    cores = [_cores_row(job, job.one_core) for job in found.jobs if job.one_core]
    if cores:
        parts.append(table(["job", "one core, s", "two cores, s", "faster by"], cores))
    compared = [job for job in found.jobs if job.duck]
    if compared:
        parts.append(DUCK.format(turn=TURN))
        parts.append(
            table(
                ["job", "input", "Spark, s", "DuckDB, s", "Spark by DuckDB", "DuckDB's memory"],
                [row for job in compared for row in _duck_rows(job)],
            )
        )
    parts.append(facts_line(found.facts))
    return "\n\n".join(parts)


def _row(job: Job) -> list[str]:
    warm = job.spark[AGAIN]
    goal = GOALS_S.get(job.name)
    verdict = "" if goal is None else f"≤ {goal:g} s: {_verdict(met=job.warm_s <= goal)}"
    return [
        *(f"`{job.name}`", _input(job, job.rows), f"{job.spark[FIRST].seconds[0]:.1f}"),
        *(_spread(warm), f"{job.rows / job.warm_s:,.0f}", _memory(warm), verdict),
    ]


def _large_row(job: Job) -> list[str]:
    growth = job.growth or 0.0
    large = job.spark[LARGE]
    return [
        *(f"`{job.name}`", _input(job, job.large_rows), f"{large.seconds[0]:.1f}"),
        *(f"{growth:.1f}", _memory(large), _verdict(met=growth <= GROWTH)),
    ]


def _cores_row(job: Job, one_core: Timed) -> list[str]:
    one_s = one_core.seconds[0]
    return [f"`{job.name}`", f"{one_s:.1f}", f"{job.warm_s:.1f}", f"{one_s / job.warm_s:.1f}"]


def _duck_rows(job: Job) -> list[list[str]]:
    rows = []
    for size in (AGAIN, LARGE):
        if size not in job.duck:
            continue
        count = job.large_rows if size == LARGE else job.rows
        spark_s, duck_s = (min(each[size].seconds) for each in (job.spark, job.duck))
        rows.append(
            [
                *(f"`{job.name}`", _input(job, count), f"{spark_s:.1f}", f"{duck_s:.2f}"),
                *(f"{spark_s / duck_s:.1f}", _memory(job.duck[size])),
            ]
        )
    return rows


def _input(job: Job, count: int) -> str:
    return f"{count / 1e6:.1f} M {'spans' if job.name == 'traces' else 'rows'}"


def _spread(timed: Timed) -> str:
    low, high = min(timed.seconds), max(timed.seconds)
    middle = f"{statistics.median(timed.seconds):.1f}"
    return middle if f"{low:.1f}" == f"{high:.1f}" else f"{middle} ({low:.1f} to {high:.1f})"


def _memory(timed: Timed) -> str:
    return f"{timed.memory_bytes / 2**30:.1f} GiB"


def _verdict(*, met: bool) -> str:
    return "met" if met else "**NOT MET**"
