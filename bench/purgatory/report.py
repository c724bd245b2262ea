"""The section of RESULTS.md: goals, the highest rates, every run."""

from bench.goals import MB, goal_table
from bench.harness.markdown import columns, facts_line, one_line, table
from bench.purgatory.figures import (
    BUSY,
    COMPILED,
    HELD,
    KAFKA,
    OLD,
    PAPER,
    SOURCE_RATE,
    TITLES,
    WHEEL,
    Found,
    Run,
    goals,
)
from bench.purgatory.workload import LOADS

METHOD = f"""\
Made by `make bench-purgatory`: the benchmark of [the design]\
(https://www.confluent.io/blog/apache-kafka-purgatory-hierarchical-timing-wheels/), as in Kafka's \
`TestPurgatoryPerformance`. Requests arrive at exponential intervals and complete after a log-normal time (given by \
median and third quartile), or expire after 200 ms. All of them watch the same three keys. Every candidate but Kafka's \
runs the same Purgatory (`proxy/core/purgatory/purgatory.py`) on another timer; each run is a separate process. \
The compiled candidate includes the benchmark's loop.

A rate is held if requests came at {HELD:.0%} of it and all ended. A run below that which used less than {BUSY:.0%} \
of a core was disturbed by other processes. A disturbed run of Sluice's wheel, compiled or not, or of Kafka's is \
repeated up to twice, and the best run counts. CPU is that of the whole process from the first request to the last \
completion; for Kafka it includes three threads, the compiler and the garbage collector. Lateness is that of \
timeouts. Memory is the peak of the process, which includes the benchmark's own lists. The collector's time is the \
sum of its pauses, from Java's own log; Python's is measured by its callbacks. Blocks are those of Python's \
allocator (512 bytes at most) that a request holds while it waits, by `sys.getallocatedblocks` before and after \
thousands of them, outside the measured time. Memory that is allocated and freed at once is not counted: Python has no \
counter for it, and `tracemalloc` would slow the run. Java's allocations are in its collector's time alone.

The old design is a port (`bench/purgatory/OldPurgatory.java`, which says what differs) of Kafka's purgatory as it was \
before KAFKA-1989: a DelayQueue of requests, watch lists, and a reaper that purges both. It has ten seconds for what \
is left after the last request; a run that leaves more has not held its rate. Dashed lines in the picture are the \
rates at which the paper's designs were saturated, on other hardware."""


def section(found: Found) -> str:
    """Return the section of RESULTS.md."""
    parts = [
        "## The request purgatory",
        METHOD,
        "![Requests per second, cores and the collector's time](purgatory.svg)",
        "### Goals",
        goal_table(goals(found)),
        "### Summary",
        _short(found),
        *_loop(found),
        "### Beside the paper",
        _paper(found),
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
        rows = [[name, one_line(reason)] for name, reason in found.left_out.items()]
        parts += ["### Left out", table(["", "reason"], rows)]
    parts.append(facts_line(found.facts))
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
            held, run = found.max_held(name, load.name), found.run(name, load.name, SOURCE_RATE)
            row.append("none" if held is None else f"{held:,}")
            row.append(
                "" if run is None else f"{run.cpu_us:.2f}{'' if run.held else ' (not held)'}"
            )
        rows.append(row)
    return table(heads, rows)


def _paper(found: Found) -> str:
    """Return the rates at which the designs are saturated, here and in Kafka's own benchmark."""
    rows = []
    for load in LOADS:
        for name in (OLD, KAFKA, WHEEL, COMPILED):
            held, said = found.max_held(name, load.name), PAPER.get((name, load.name))
            if name in found.names():
                paper = "not saturated" if name == KAFKA and said is None else ""
                rows.append(
                    [
                        TITLES[name],
                        load.name,
                        paper if said is None else f"about {said:,}",
                        "none" if held is None else f"{held:,}",
                    ]
                )
    heads = ["", "timeouts", "the paper: saturated at, /s", "here: highest rate held, /s"]
    return table(heads, rows)


def _loop(found: Found) -> list[str]:
    if found.loop_cpu_us is None:
        return []
    text = (
        f"Of plain Python's CPU {found.loop_cpu_us:.2f} µs are the benchmark itself: the loop, the request and its "
        f"completion ({SOURCE_RATE:,}/s, no purgatory). The share in Kafka's figure is unknown."
    )
    return [text]


def _expired(runs: list[Run]) -> str:
    known = [run.expired for run in runs if run.expired is not None]
    return f", {sum(known) / len(known):.0%} expire" if known else ""


def _runs(found: Found, runs: list[Run]) -> str:
    order = found.names()
    rows = columns(
        sorted(runs, key=lambda run: (run.rate, order.index(run.candidate))),
        [
            ("", lambda run: TITLES[run.candidate]),
            ("target/s", lambda run: f"{run.target:,.0f}"),
            (
                "actual/s",
                lambda run: f"{run.actual:,.0f}" if run.held else f"**{run.actual:,.0f}**",
            ),
            ("cores", lambda run: f"{run.cores:.2f}"),
            ("CPU µs/request", lambda run: f"{run.cpu_us:.2f}"),
            ("late p99, ms", _late),
            ("memory, MB", lambda run: f"{run.resident_bytes / MB:.0f}"),
            ("collector, ms", lambda run: "" if run.gc_ms is None else f"{run.gc_ms:.0f}"),
            ("blocks/request", lambda run: "" if run.blocks is None else f"{run.blocks:.1f}"),
            ("requests", lambda run: f"{run.requests:,.0f}"),
        ],
    )
    return rows + "\n\nBold: the rate was not held."


def _late(run: Run) -> str:
    return "" if run.late_p99_us is None else f"{run.late_p99_us / 1000:.1f}"
