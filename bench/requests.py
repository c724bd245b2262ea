"""`python -m bench.requests`: requests that are long but rare, and whole connections; writes its section of RESULTS.md.

One client asks one question at a time, over one connection or over a new one each time. Client and broker are this
program. All proxies run at once, and each round takes them in shuffled order; nothing is pinned.
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.figures import Sample, Samples
from bench.goals import Goal, goal_table, max_goal, tell
from bench.harness.command import options, prints_errors
from bench.harness.compiled_build import missing, unpack_compiled
from bench.harness.figures import Spread, quantile
from bench.harness.machine import describe, load_average, today
from bench.harness.markdown import columns, facts_line, write_section
from bench.harness.usage import cpu_ns
from bench.one_question import Broker, Case, Client
from bench.peer_commands import maybe_haproxy
from bench.replay.frames import (
    api_versions,
    join_group,
    metadata,
    offset_commit,
    offset_fetch,
    sync_group,
)
from bench.running import Running
from bench.variants import COMPILED, HAPROXY, SLUICE, Variant, compiled, first_line, sluice_command

NODES: Final = "0-2"
"""Those that the Metadata replies name."""
WARM_SECONDS: Final = 0.2
METHOD: Final = """\
Made by `make bench-requests`. One client asks one question at a time, over one connection; *a connection* is connect,
ApiVersions, reply and close. Client and broker are one program. CPU is that of the proxy alone, for each request. Goals
are those of the compiled build."""


CASES: Final = (
    Case("Metadata of 1,000 partitions", metadata(1000)),
    Case("Metadata of 10,000 partitions", metadata(10_000)),
    Case("OffsetCommit of 50 partitions", offset_commit(50)),
    Case("OffsetCommit of 1,000 partitions", offset_commit(1000)),
    Case("OffsetFetch of 50 partitions", offset_fetch(50)),
    Case("OffsetFetch of 1,000 partitions", offset_fetch(1000)),
    Case("JoinGroup of 200 members, the leader's", join_group(200)),
    Case("SyncGroup of 200 members, the leader's", sync_group(200)),
    Case("a connection", api_versions(), connects=True),
)
CONNECTION: Final = CASES[-1]


def run(case: Case, proxy: Running, broker: Broker, nth: int, seconds: float) -> Sample:
    """Ask a case's question again and again for so long; return what it cost.

    Raises:
        BenchError: the proxy closes the connection.
    """
    assert proxy.pid is not None, "the proxy does not run"
    broker.frames = case.frames
    client = Client(case, proxy.port)
    took: list[float] = []
    size = 0
    try:
        until = time.monotonic() + WARM_SECONDS
        while time.monotonic() < until:
            client.ask()
        before, began = cpu_ns(proxy.pid), time.monotonic()
        now = began
        while now < began + seconds:
            size += len(case.frames.request) + client.ask()
            took.append(time.monotonic() - now)
            now += took[-1]
        spent_us = (cpu_ns(proxy.pid) - before) / 1000
    finally:
        client.close()
    p50_us, p99_us = (1e6 * quantile(took, share) for share in (0.5, 0.99))
    count = len(took)
    return Sample(
        case.name, proxy.name, nth, count, now - began, size, spent_us / count, p50_us, p99_us
    )


def measure(given: list[Variant], folder: Path, rounds: int, seconds: float) -> Samples:
    """Run every case through every variant `rounds` times.

    Raises:
        BenchError: a proxy does not start, or closes a connection.
    """
    order = random.Random(1)
    samples = Samples()
    with ExitStack() as stack:
        broker = Broker(CONNECTION.frames)
        broker.start()
        stack.callback(broker.close)
        proxies = [
            stack.enter_context(Running(each, broker.port, folder / each.name, pinned=False))
            for each in given
        ]
        for nth in range(rounds):
            for case in order.sample(CASES, len(CASES)):
                for proxy in order.sample(proxies, len(proxies)):
                    samples.add(run(case, proxy, broker, nth, seconds))
            print(f"round {nth + 1} of {rounds}", flush=True)
    return samples


def cpu_ratio(samples: Samples, case: Case, name: str) -> Spread | None:
    """Return the CPU of a variant divided by HAProxy's, computed in each round; None without both."""
    return samples.between(
        case.name, name, HAPROXY, lambda ours, theirs: ours.cpu_us / theirs.cpu_us
    )


def goals(samples: Samples) -> list[Goal]:
    """Return the goals of the compiled build."""
    compared = [case for case in CASES if not case.connects]
    found = [
        max_goal(f"CPU by HAProxy's, {case.name}", "", cpu_ratio(samples, case, COMPILED), 2)
        for case in compared
    ]
    spent = samples.of(CONNECTION.name, COMPILED, lambda each: each.cpu_us)
    return [
        *(replace(each, aim=1.0) for each in found),
        replace(max_goal("CPU of a connection", "µs", spent, 300, 0), aim=150),
    ]


def section(samples: Samples, names: list[str], facts: dict[str, str]) -> str:
    """Return the section of RESULTS.md."""

    def of(what: Callable[[Sample], float], digits: int) -> Callable[[tuple[Case, str]], str]:
        return lambda row: _text(samples.of(row[0].name, row[1], what), digits)

    rows = [(case, name) for case in CASES for name in names]
    table = columns(
        rows,
        [
            ("", lambda row: row[0].name),
            ("", lambda row: row[1]),
            ("CPU µs/request", of(lambda each: each.cpu_us, 1)),
            ("by HAProxy's", lambda row: _text(cpu_ratio(samples, *row), 2)),
            ("requests/s", of(lambda each: each.requests_per_second, 0)),
            ("p50 µs", of(lambda each: each.p50_us, 0)),
            ("p99 µs", of(lambda each: each.p99_us, 0)),
        ],
    )
    head = "## Long requests and connections"
    return "\n\n".join([head, METHOD, goal_table(goals(samples)), table, facts_line(facts)])


def _text(found: Spread | None, digits: int) -> str:
    return "" if found is None else found.text(digits)


def variants(wheel: Path | None) -> list[Variant]:
    """Return the source, the compiled build unpacked in `wheel` (None: not), and HAProxy if it is installed."""
    program = Path(sys.executable).with_name("sluice")
    version = first_line([str(program), "version"])
    found = [Variant(SLUICE, version, sluice_command(program, NODES), peer=False)]
    if wheel is not None:
        found.append(compiled(program, wheel, NODES))
    return [*found, *maybe_haproxy()]


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and write its section; return the exit code."""
    parser = options("bench.requests", __doc__, rounds=5, seconds=1.0)
    given = parser.parse_args(arguments)
    reason = missing()
    with tempfile.TemporaryDirectory(prefix="sluice-requests-") as parent:
        folder = Path(parent)
        wheel = None if reason else folder / "wheel"
        if wheel is not None:
            unpack_compiled(wheel)
        found = variants(wheel)
        samples = measure(found, folder, given.rounds, given.seconds)
    facts = {
        "date": today(),
        "rounds": f"{given.rounds} of {given.seconds:g} s each",
        "load average at the end": load_average(),
        **describe(),
        **{each.name: each.version for each in found},
    }
    write_section(given.out, "requests", section(samples, [each.name for each in found], facts))
    tell(goals(samples))
    return 0


if __name__ == "__main__":
    sys.exit(main())
