"""Case e: cases a and d again, one Sluice for both, with the memory of a small container and no pool configured.

Rules: the limit is a real cgroup's; where none can be made the case is left out with the reason. The sizes of the pools
are Sluice's own defaults, which it must derive from the limit: `sluice check` is asked what it reckons with.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from bench.build import BenchError
from bench.memory import burst, mixed
from bench.memory.cgroup import Cgroup, NoCgroupError, memory_cgroup
from bench.memory.figures import Case, at_most, base_and_most, mib, quantile, seconds
from bench.memory.frames import LARGE, MIB
from bench.memory.proxies import Running, SluiceSetup, said_by

if TYPE_CHECKING:
    from pathlib import Path

    from bench.memory.burst import Burst
    from bench.memory.figures import Resident
    from bench.memory.kafka import Kafka
    from bench.memory.mixed import Mixed

LIMIT: Final = 256 * MIB
HEADS: Final = [
    *("", "acked", "problems", "MiB/s", "wait of the large p99, s", "longest without a reply, s"),
    *("base, MiB", "most, MiB", "most charged, MiB"),
]


def measure(
    kafka: Kafka,
    folder: Path,
    run_s: float = mixed.SECONDS,
    clients: int = mixed.CLIENTS,
    connections: int = burst.CONNECTIONS,
) -> Case:
    """Both loads, in the cgroup."""
    case = Case(
        "e",
        f"e. Within {LIMIT // MIB} MiB",
        f"The mix of case a ({run_s:g} s) and then the burst of case d go through one Sluice that runs in a "
        f"memory cgroup of {LIMIT // MIB} MiB without swap. Every Produce is wanted whole; the pools are "
        "what it takes by itself. What is charged is more than what is resident: page cache counts, and "
        "may be taken back.",
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
            problems.append(f"the proxy was gone: {error}")
        gone = proxy.ended
    problems += proxy.problems
    case.goals += [
        at_most("killed for want of memory", "", max(group.kills(), int(gone)), 0, 0),
        at_most("ended or refused by the far side", "", len(problems), 0, 0),
    ]
    if problems:
        case.left_out["problems, the first"] = "; ".join(problems[:3])


def _mix(case: Case, group: Cgroup, came_of_it: tuple[Mixed, Resident | None]) -> list[str]:
    """Its row; what went wrong."""
    found, memory = came_of_it
    acked = sum(map(len, found.waits.values()))
    large = quantile(found.waits[LARGE], 0.99)
    case.rows.append(
        [
            *("the mix", f"{acked:,}", f"{len(found.problems)}", f"{found.rate_mib:,.0f}"),
            *(seconds(large), seconds(found.longest_gap_s)),
            *(*base_and_most(memory), mib(group.most_bytes())),
        ]
    )
    return found.problems


def _burst(
    case: Case, group: Cgroup, came_of_it: tuple[Burst, Resident | None], connections: int
) -> list[str]:
    """Its row and goal; what went wrong."""
    found, memory = came_of_it
    acked = len(found.waits)
    rate_mib = acked * burst.REQUEST / MIB / max(found.waits, default=math.inf)
    case.rows.append(
        [
            *("the burst", f"{acked:,}", f"{len(found.problems)}", f"{rate_mib:,.0f}"),
            *(seconds(quantile(found.waits, 0.99)), "-"),
            *(*base_and_most(memory), mib(group.most_bytes())),
        ]
    )
    case.goals.append(at_most("the burst: not acknowledged", "", connections - acked, 0, 0))
    return found.problems


def _check(setup: SluiceSetup, proxy: Running, case: Case) -> str:
    """What `sluice check` says inside the limit; and a goal of what it reckons with."""
    try:
        said = said_by(setup.sluice(proxy.place, "check"))
    except BenchError as error:
        case.left_out["sluice check"] = str(error)
        return ""
    case.goals.append(
        at_most("what it reckons with, in all", "MiB", reckoned_mib(said), LIMIT / MIB, 1)
    )
    return said


def reckoned_mib(said: str) -> float:
    """The sum in what `sluice check` prints; infinite where it does not reckon, for then nothing is bounded."""
    found = re.search(r"^\s*([\d.]+) MiB +in all", said, re.MULTILINE)
    return float(found[1]) if found else math.inf
