"""Its section of RESULTS.md: goals, the highest rates, every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.goals import MB
from bench.purgatory.figures import BUSY, HELD, SOURCE_RATE, TITLES, Run, goals
from bench.purgatory.workload import LOADS
from bench.report import goal_table, table

if TYPE_CHECKING:
    from bench.purgatory.figures import Found

METHOD = f"""\
Made by `make bench-purgatory`: the benchmark of [the design]\
(https://www.confluent.io/blog/apache-kafka-purgatory-hierarchical-timing-wheels/), as Kafka's \
`TestPurgatoryPerformance` plays it. Requests arrive at exponential intervals, wait for a log-normal time (median and \
third quartile are given), 200 ms at most, and are watched by the same three keys. All but Kafka's run the same \
Purgatory (`proxy/core/purgatory.py`) on another timer, each run in a process of its own; where it is compiled, so is \
the benchmark's loop. A rate is held when requests came at {HELD:.0%} of it. A run that fell short though it used less \
than {BUSY:.0%} of a core was kept from it by others; of Sluice's wheel, compiled or not, and Kafka's it is then \
played again, twice at most, and the best counts. CPU is that of the whole process from the first request to the last \
completion; of Kafka's it includes three threads, the compiler and the garbage collector. Lateness is that of \
timeouts. Memory is the most the process ever held, the benchmark's own lists included."""


def section(found: Found) -> str:
    """What stands between the comments."""
    parts = [
        "## The request purgatory",
        METHOD,
        "![Requests per second and cores used](purgatory.svg)",
        "### Goals",
        goal_table(goals(found)),
        "### In short",
        _short(found),
        *_loop(found),
    ]
    for load in LOADS:
        runs = [run for run in found.runs if run.load == load.name]
        if runs:
            parts.append(
                f"### {load.name.capitalize()} timeouts: {load.pct50_ms} / {load.pct75_ms} ms"
                f"{_expired(runs)}"
            )
            parts.append(_runs(found, runs))
    if found.left_out:
        rows = [[name, why.replace("|", "/")] for name, why in found.left_out.items()]
        parts += ["### Left out", table(["", "reason"], rows)]
    parts.append(table(["", ""], [[key, value] for key, value in found.facts.items()]))
    return "\n\n".join(parts)


def _short(found: Found) -> str:
    heads = [""]
    for load in LOADS:
        heads += [
            f"{load.name}: highest rate held, /s",
            f"{load.name}: CPU µs/request at {SOURCE_RATE:,}/s",
        ]
    rows = []
    for name in found.names():
        row = [TITLES[name]]
        for load in LOADS:
            most, run = found.most_held(name, load.name), found.run(name, load.name, SOURCE_RATE)
            row.append("none" if most is None else f"{most:,}")
            row.append(
                "" if run is None else f"{run.cpu_us:.2f}{'' if run.held else ' (not held)'}"
            )
        rows.append(row)
    return table(heads, rows)


def _loop(found: Found) -> list[str]:
    if found.loop_cpu_us is None:
        return []
    text = (
        f"Of plain Python's CPU {found.loop_cpu_us:.2f} µs are the benchmark itself: the loop, the request, its "
        f"completion in time ({SOURCE_RATE:,}/s, no purgatory). What part of Kafka's is, is not known."
    )
    return [text]


def _expired(runs: list[Run]) -> str:
    known = [run.expired for run in runs if run.expired is not None]
    return f", {sum(known) / len(known):.0%} expire" if known else ""


def _runs(found: Found, runs: list[Run]) -> str:
    order = found.names()
    rows = [
        [
            TITLES[run.candidate],
            f"{run.target:,.0f}",
            f"{run.actual:,.0f}" if run.held else f"**{run.actual:,.0f}**",
            f"{run.cores:.2f}",
            f"{run.cpu_us:.2f}",
            "" if run.late_p99_us is None else f"{run.late_p99_us / 1000:.1f}",
            f"{run.resident_bytes / MB:.0f}",
            f"{run.requests:,}",
        ]
        for run in sorted(runs, key=lambda run: (run.rate, order.index(run.candidate)))
    ]
    heads = ["", "target/s", "actual/s", "cores", "CPU µs/request", "late p99, ms", "memory, MB"]
    return table([*heads, "requests"], rows) + "\n\nBold: not held."
