"""Case a: 200 clients with requests of 1 KiB and 16 MiB that disconnect at random, and a pool of one large request."""

import random
from pathlib import Path
from typing import Final

from bench.goals import Goal, max_goal
from bench.harness.figures import median, quantile
from bench.memory.figures import Case, Resident, base_and_peak, seconds
from bench.memory.frames import FRAMING, LARGE, SMALL, produce_frame
from bench.memory.kafka import FLEETING, Kafka
from bench.memory.load import Load, Outcome, Planned, through
from bench.memory.proxies import SluiceSetup, no_proxy
from bench.running import Running
from bench.variants import SLUICE

Frames = dict[int, list[bytes]]
CLIENTS: Final = 200
SECONDS: Final = 60.0
SHORTER: Final = 0.5
LARGE_SHARE: Final = 0.25
LEAVE_SHARE: Final = 0.05
PARTITIONS: Final = 8
POOL: Final = FRAMING + LARGE
BOUND: Final = POOL + POOL - 1
"""The pool is not strict: one request may exceed it while a byte is free (KIP-72)."""
WHOLE_BOUND: Final = BOUND + LARGE
"""A policy that reads bodies has a copy of one besides."""
LONGEST_GAP_S: Final = 1.0
LONGEST_WAIT_S: Final = 10.0
LIMITS: Final = {"socket_request_max_bytes": LARGE}
HEADS: Final = [
    *("", "1 KiB acked", "16 MiB acked", "MiB/s"),
    *("1 KiB wait p99, s", "16 MiB wait p50, s", "p99, s"),
    *("longest without a reply, s", "disconnected", "problems", "base, MiB", "peak, MiB"),
]


class MixedPlan:
    """Draws each request's size, partition, and whether its client leaves before its end."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._dice = random.Random(1)

    def __call__(self) -> Planned:
        """Return the next request."""
        dice = self._dice
        size = LARGE if dice.random() < LARGE_SHARE else SMALL
        frame = dice.choice(self._frames[size])
        leaves = dice.random() < LEAVE_SHARE
        return Planned(size, frame, dice.randint(1, len(frame)) if leaves else 0)


def mixed_frames(kafka: Kafka) -> Frames:
    """Create a topic; return a request of each size for each partition."""
    topic = kafka.topic(PARTITIONS, **FLEETING)
    return {
        size: [produce_frame(topic, size, partition) for partition in range(PARTITIONS)]
        for size in (SMALL, LARGE)
    }


def run_mixed(
    proxy: Running, frames: Frames, clients: int, run_s: float
) -> tuple[Outcome, Resident | None]:
    """Run the load through a proxy; return the outcome and the proxy's memory, None without a proxy."""
    load = Load(proxy.port, clients, MixedPlan(frames))
    return through(proxy, load, frames[SMALL][0], run_s)


def row(title: str, found: Outcome, memory: Resident | None) -> list[str]:
    """Return a row of the table with `HEADS`."""
    small, large = found.waits[SMALL], found.waits[LARGE]
    return [
        *(title, f"{len(small):,}", f"{len(large):,}", f"{found.rate_mib:,.0f}"),
        *map(seconds, (quantile(small, 0.99), median(large), quantile(large, 0.99))),
        *(seconds(found.longest_gap_s), f"{found.left:,}", f"{len(found.problems):,}"),
        *base_and_peak(memory),
    ]


def measure(kafka: Kafka, folder: Path, run_s: float = SECONDS, clients: int = CLIENTS) -> Case:
    """Run the load whole; then for a shorter time streaming and direct."""
    shorter_s = run_s * SHORTER
    case = Case(
        "a",
        f"a. {clients} clients, 1 KiB and 16 MiB, a pool of one large request",
        f"{clients} clients run for {run_s:g} s (streaming and direct {shorter_s:g} s), each with one request in "
        f"flight: {LARGE_SHARE:.0%} have 16 MiB, the others 1 KiB. {LEAVE_SHARE:.0%} disconnect after a random "
        "number of bytes. The pool and the largest request have 16 MiB each, so the bound is 32 MiB, "
        "and 48 MiB with the copy that a policy reads. A wait is the time from the first byte sent to the reply.",
        heads=HEADS,
    )
    frames = mixed_frames(kafka)
    pool = {"queued_max_request_bytes": POOL}
    ways = (
        (SluiceSetup(pool, LIMITS, whole=True).variant(f"{SLUICE}, whole"), run_s),
        (SluiceSetup(pool, LIMITS).variant(f"{SLUICE}, streaming"), shorter_s),
        (no_proxy(), shorter_s),
    )
    for variant, way_s in ways:
        with Running(variant, kafka.port, folder / variant.name) as proxy:
            found, memory = run_mixed(proxy, frames, clients, way_s)
        problems = [*found.problems, *proxy.problems]
        case.rows.append(row(variant.name, found, memory))
        if memory is not None:
            case.goals += goals(variant.name, found, memory, len(problems))
        case.note_problems(problems, f"{variant.name}: ")
    return case


def goals(title: str, found: Outcome, memory: Resident, problems: int) -> list[Goal]:
    """Return the goals; those of waits only for `whole`, because streaming requests do not queue for memory."""
    is_whole = title.endswith("whole")
    large = quantile(found.waits[LARGE], 0.99)
    waits = [
        max_goal(f"{title}: longest time without a reply", "s", found.longest_gap_s, LONGEST_GAP_S),
        max_goal(f"{title}: wait of 16 MiB, p99", "s", large, LONGEST_WAIT_S),
    ]
    return [
        *(waits if is_whole else ()),
        memory.goal(title, WHOLE_BOUND if is_whole else BOUND),
        max_goal(f"{title}: connections ended or requests refused", "", problems, 0, 0),
    ]
