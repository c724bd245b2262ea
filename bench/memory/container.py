"""Case e: cases a and d through one Sluice with the memory of a small container and default pools.

The limit is a real cgroup's; the case is left out if none can be created. Sluice derives the sizes of its pools from
the limit; `sluice check` prints them.
"""

import math
import re
from pathlib import Path
from typing import Final

from bench.goals import max_goal
from bench.harness import BenchError
from bench.harness.figures import quantile
from bench.memory import burst, mixed
from bench.memory.cgroup import Cgroup, NoCgroupError, memory_cgroup
from bench.memory.figures import Case, Resident, base_and_peak, mib, seconds
from bench.memory.frames import LARGE, MIB
from bench.memory.kafka import Kafka
from bench.memory.load import Outcome
from bench.memory.proxies import SluiceSetup, said_by
from bench.running import Running

LIMIT: Final = 256 * MIB
HEADS: Final = [
    *("", "acked", "problems", "MiB/s", "p99 wait of large, s", "longest without a reply, s"),
    *("base, MiB", "peak, MiB", "peak charged, MiB"),
]


def measure(
    kafka: Kafka,
    folder: Path,
    run_s: float = mixed.SECONDS,
    clients: int = mixed.CLIENTS,
    connections: int = burst.CONNECTIONS,
) -> Case:
    """Run both loads in the cgroup."""
    case = Case(
        "e",
        f"e. Within {LIMIT // MIB} MiB",
        f"The mix of case a ({run_s:g} s) and then the burst of case d go through one Sluice that runs in a "
        f"memory cgroup of {LIMIT // MIB} MiB without swap. A policy needs every Produce whole; the pools have "
        "their default sizes. Charged memory includes page cache, which the kernel can reclaim.",
        heads=HEADS,
    )
    try:
        with memory_cgroup(LIMIT) as group:
            _measure_within(case, group, kafka, folder, run_s, clients, connections)
    except NoCgroupError as error:
        case.left_out["the whole case"] = str(error)
    return case


def _measure_within(
    case: Case,
    group: Cgroup,
    kafka: Kafka,
    folder: Path,
    run_s: float,
    clients: int,
    connections: int,
) -> None:
    setup = SluiceSetup(limits=mixed.LIMITS, whole=True, within=group)
    mixed_frames, burst_frames = mixed.mixed_frames(kafka), burst.burst_frames(kafka)
    problems: list[str] = []
    with Running(setup.variant(), kafka.port, folder) as proxy:
        case.said = _check(setup, proxy, case)
        try:
            problems += _mix(case, group, mixed.run_mixed(proxy, mixed_frames, clients, run_s))
            problems += _burst(
                case, group, burst.run_burst(proxy, burst_frames, connections), connections
            )
        except OSError as error:
            problems.append(f"the proxy has ended: {error}")
        gone = proxy.ended
    problems += proxy.problems
    case.goals += [
        max_goal("killed for lack of memory", "", max(group.kills(), int(gone)), 0, 0),
        max_goal("connections ended or requests refused", "", len(problems), 0, 0),
    ]
    case.note_problems(problems)


def _mix(case: Case, group: Cgroup, outcome: tuple[Outcome, Resident | None]) -> list[str]:
    """Add its row; return its problems."""
    found, memory = outcome
    acked = len(found.replied)
    large = quantile(found.waits[LARGE], 0.99)
    case.rows.append(
        [
            *("the mix", f"{acked:,}", f"{len(found.problems)}", f"{found.rate_mib:,.0f}"),
            *(seconds(large), seconds(found.longest_gap_s)),
            *(*base_and_peak(memory), mib(group.peak_bytes())),
        ]
    )
    return found.problems


def _burst(
    case: Case, group: Cgroup, outcome: tuple[Outcome, Resident | None], connections: int
) -> list[str]:
    """Add its row and goal; return its problems."""
    found, memory = outcome
    acked, waits = len(found.replied), found.waits[burst.REQUEST]
    rate_mib = acked * burst.REQUEST / MIB / max(waits, default=math.inf)
    case.rows.append(
        [
            *("the burst", f"{acked:,}", f"{len(found.problems)}", f"{rate_mib:,.0f}"),
            *(seconds(quantile(waits, 0.99)), "-"),
            *(*base_and_peak(memory), mib(group.peak_bytes())),
        ]
    )
    case.goals.append(max_goal("the burst: not acknowledged", "", connections - acked, 0, 0))
    return found.problems


def _check(setup: SluiceSetup, proxy: Running, case: Case) -> str:
    """Return the output of `sluice check` inside the limit; add a goal for its total."""
    try:
        said = said_by(setup.sluice(proxy.place, "check"))
    except BenchError as error:
        case.left_out["sluice check"] = str(error)
        return ""
    case.goals.append(max_goal("total of `sluice check`", "MiB", checked_mib(said), LIMIT / MIB, 1))
    return said


def checked_mib(said: str) -> float:
    """Return the total that `sluice check` prints; infinite if there is none, as nothing is bounded then."""
    found = re.search(r"^\s*([\d.]+) MiB +in all", said, re.MULTILINE)
    return float(found[1]) if found else math.inf
