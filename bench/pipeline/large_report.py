"""The section of `python -m bench.pipeline.large` in RESULTS.md: every figure, and what follows from them.

Growth is judged by CPU time, which is the same on a busy machine; two workers against one by the clock.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from bench.harness.markdown import columns, facts_line, table
from bench.pipeline.cluster_bench import ClusterBench, Figures, gib, together

INGEST: Final = "ingest"
LINEAR: Final = 1.1
"""The most CPU time that a row may cost, by that of a row of the smaller input."""
SPEED_UP: Final = 1.6
"""The least by which two workers are faster than one."""
DAY_ROWS: Final = 1e9
METHOD: Final = """\
Made by `make report-large`: the commands of `sluice-pipeline` on a standalone cluster of two workers, each with one
core, and 1.2 GiB for the heap of its executor; the driver's heap is 1 GiB. Every command is an application of its own,
and its time is from the start of its process to the end. CPU time and memory are those of driver and workers with
their Python, sampled twice a second; memory is the peak of a sum of resident sizes. *Spill* is what sorts and
aggregations have put on disk. *Files* are those that the command wrote, the tables' own records included."""


@dataclass(slots=True)
class Found:
    """The results of one run: what was made, and the commands over each of the logs."""

    days: int
    made: dict[str, Any]
    made_dense: dict[str, Any]
    month: ClusterBench = field(init=False)
    two_workers: ClusterBench = field(init=False)
    dense: ClusterBench = field(init=False)
    one_worker: ClusterBench = field(init=False)


def rows_of(made: dict[str, Any]) -> int:
    """Return the rows of all families of a log."""
    return sum(int(made[family]) for family in ("entity", "api", "topic", "instance"))


def section(found: Found, facts: dict[str, str]) -> str:
    """Return the section."""
    rows = rows_of(found.made)
    shares = ", ".join(
        f"`{family}` {found.made[family] / rows:.0%}"
        for family in ("entity", "api", "topic", "instance")
    )
    about = (
        f"The log has {rows / 1e6:.1f} M rows ({shares}) of {found.days} days in"
        f" {found.made['files']:,} files, {found.made['bytes'] / rows:.1f} bytes for a row by zstd."
        f" Making it took {found.made['seconds']:.0f} s."
    )
    last = [each for each in found.month.found if each.days == found.days]
    ingests = _ingests(found.month)
    shown = [together(ingests), *(each for each in last if each.name != INGEST)]
    return "\n\n".join(
        [
            "## A month of forty teams on a cluster",
            METHOD,
            about,
            _costs(shown),
            "Growth: the CPU time of a row of the larger input by that of the smaller.",
            table(
                ["command", "smaller", "larger", "input", "CPU time", "by row", f"≤ {LINEAR:g}"],
                [*_by_days(found), *_by_rows(found)],
            ),
            "The same day on one worker and on two.",
            table(
                ["command", "one, s", "two, s", "faster by", f"≥ {SPEED_UP:g}"], _by_workers(found)
            ),
            _projection(together(ingests), rows),
            facts_line(facts),
        ]
    )


def _costs(shown: list[Figures]) -> str:
    return columns(
        shown,
        [
            ("command", lambda each: f"`{each.name}`"),
            ("time, s", lambda each: f"{each.seconds:,.0f}"),
            ("CPU, s", lambda each: f"{each.cpu_s:,.0f}"),
            ("driver", lambda each: gib(each.driver_bytes)),
            ("worker", lambda each: gib(each.worker_bytes)),
            ("shuffle", lambda each: gib(each.shuffled_bytes)),
            ("spill", lambda each: gib(each.spilled_bytes)),
            ("tasks", lambda each: f"{each.tasks:,}"),
            ("files", lambda each: f"{each.files:,}"),
        ],
    )


def _ingests(bench: ClusterBench) -> list[Figures]:
    return [each for each in bench.found if each.name == INGEST]


def _by_days(found: Found) -> list[list[str]]:
    """Return how the commands grow from a third of the month to all of it, and `ingest` from its start to its end."""
    some = found.days // 3
    if not some:
        return []
    ingests = _ingests(found.month)
    first, last = together(ingests[:some]), together(ingests[-some:])
    rows = [_growth(first, last, f"first {some} days", f"last {some} days", 1.0)]
    larger = {each.name: each for each in found.month.found if each.days == found.days}
    for each in found.month.found:
        if each.days == some and each.name != INGEST:
            times = found.days / some
            rows.append(
                _growth(each, larger[each.name], f"{some} days", f"{found.days} days", times)
            )
    return rows


def _by_rows(found: Found) -> list[list[str]]:
    larger = {each.name: each for each in found.dense.found}
    day, dense = rows_of(found.made) / found.days, rows_of(found.made_dense)
    return [
        _growth(
            each, larger[each.name], f"{day / 1e6:.1f} M rows", f"{dense / 1e6:.1f} M", dense / day
        )
        for each in found.two_workers.found
    ]


def _growth(less: Figures, more: Figures, small: str, large: str, times: float) -> list[str]:
    grown = more.cpu_s / less.cpu_s
    return [
        *(f"`{less.name}`", f"{small}: {less.cpu_s:,.0f} s", f"{large}: {more.cpu_s:,.0f} s"),
        *(f"x {times:.1f}", f"x {grown:.2f}", f"{grown / times:.2f}"),
        _verdict(met=grown / times <= LINEAR),
    ]


def _by_workers(found: Found) -> list[list[str]]:
    two = {each.name: each for each in found.two_workers.found}
    rows = []
    for each in found.one_worker.found:
        faster = each.seconds / two[each.name].seconds
        rows.append(
            [
                *(f"`{each.name}`", f"{each.seconds:.1f}", f"{two[each.name].seconds:.1f}"),
                *(f"{faster:.2f}", _verdict(met=faster >= SPEED_UP)),
            ]
        )
    return rows


def _projection(ingest: Figures, rows: int) -> str:
    cores = DAY_ROWS * ingest.cpu_s / rows / 86_400
    return (
        f"`ingest` takes {ingest.cpu_s / rows * 1e6:.1f} s of CPU for a million rows. For 10^9 rows a day that is"
        f" {DAY_ROWS * ingest.cpu_s / rows / 3600:.1f} core hours: {cores:.2f} cores all day, computed from the above."
    )


def _verdict(*, met: bool) -> str:
    return "met" if met else "**NOT MET**"
