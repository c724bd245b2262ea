"""Case d: 200 connections produce 10 MiB each at once, like the load of a Hadoop job at its end.

All are connected, and have had one reply, before the burst. It goes through Sluice with a pool of 64 MiB (whole and
streaming), through the installed peers, and directly to the broker. The unbounded case comes last, because Java does
not shrink its heap. Clients wait for five minutes.
"""

import itertools
from pathlib import Path
from typing import Final

from bench.build import build
from bench.goals import max_goal
from bench.harness import BenchError
from bench.harness.figures import median, quantile
from bench.harness.usage import peak_bytes, reset_peak
from bench.memory.figures import Case, Resident, base_and_peak, mib, seconds
from bench.memory.frames import FRAMING, MIB, SMALL, produce_frame
from bench.memory.kafka import FLEETING, Kafka
from bench.memory.load import Load, Outcome, Planned, through
from bench.memory.proxies import SluiceSetup, no_proxy
from bench.peer_commands import installed_peers
from bench.running import Running
from bench.variants import SLUICE, Variant

CONNECTIONS: Final = 200
REQUEST: Final = 10 * MIB
POOL: Final = 64 * MIB
BOUND: Final = POOL + FRAMING + REQUEST - 1
WHOLE_BOUND: Final = BOUND + REQUEST
"""A policy that reads bodies has a copy of one besides."""
PARTITIONS: Final = 8
PATIENCE_SECONDS: Final = 300.0
SETTINGS: Final = {"queued_max_request_bytes": POOL}
LIMITS: Final = {"socket_request_max_bytes": 16 * MIB}
HEADS: Final = [
    *("", "acked", "refused or ended", "all acked after, s", "wait p50, s", "p99, s"),
    *("proxy: base, MiB", "peak, MiB", "broker: peak, MiB"),
]


def burst_frames(kafka: Kafka) -> tuple[list[bytes], bytes]:
    """Create a topic; return (a request of 10 MiB for each partition, a small one)."""
    topic = kafka.topic(PARTITIONS, **FLEETING)
    return [produce_frame(topic, REQUEST, part) for part in range(PARTITIONS)], produce_frame(
        topic, SMALL
    )


def run_burst(
    proxy: Running, frames: tuple[list[bytes], bytes], connections: int
) -> tuple[Outcome, Resident | None]:
    """Run the burst through a proxy; return the outcome and the proxy's memory, None without a proxy."""
    large, small = frames
    turns = itertools.cycle([Planned(REQUEST, frame) for frame in large])
    load = Load(proxy.port, connections, lambda: next(turns), once=True)
    return through(proxy, load, small, PATIENCE_SECONDS)


def row(title: str, found: Outcome, memory: Resident | None, broker_bytes: int | None) -> list[str]:
    """Return a row of the table with `HEADS`."""
    waits = found.waits[REQUEST]
    return [
        *(title, f"{len(waits)}", f"{len(found.problems)}"),
        *(seconds(max(waits, default=None), 1), seconds(median(waits), 1)),
        seconds(quantile(waits, 0.99), 1),
        *base_and_peak(memory),
        mib(broker_bytes),
    ]


def measure(kafka: Kafka, folder: Path, connections: int = CONNECTIONS) -> Case:
    """Run the burst through each variant."""
    case = Case(
        "d",
        f"d. A burst: {connections} connections produce 10 MiB each at once, a pool of 64 MiB",
        f"{connections * REQUEST / MIB:,.0f} MiB in total, on established connections. With a pool of 64 MiB "
        "the bound is 74 MiB, and 84 MiB with the copy that a policy reads. The broker's memory is that of its Java "
        "process (VmHWM); Java returns little between the variants, which run in the order of the table.",
        heads=HEADS,
    )
    kafka.restart()
    frames = burst_frames(kafka)
    for variant in variants(case):
        try:
            with Running(variant, kafka.port, folder / variant.name) as proxy:
                reset_peak(kafka.pid)
                found, memory = run_burst(proxy, frames, connections)
        except (BenchError, OSError) as error:
            case.left_out[variant.name] = str(error)
            continue
        case.rows.append(row(variant.name, found, memory, peak_bytes(kafka.pid)))
        problems = [*found.problems, *proxy.problems]
        case.note_problems(problems, f"{variant.name}: ")
        if variant.name.startswith(SLUICE) and memory is not None:
            acked = len(found.replied)
            case.goals += [
                max_goal(f"{variant.name}: not acknowledged", "", connections - acked, 0, 0),
                memory.goal(variant.name, WHOLE_BOUND if variant.name.endswith("whole") else BOUND),
            ]
    return case


def variants(case: Case) -> list[Variant]:
    """Return Sluice whole and streaming, the installed peers, and `direct`."""
    ours = [
        SluiceSetup(SETTINGS, LIMITS, whole=True).variant(f"{SLUICE}, whole"),
        SluiceSetup(SETTINGS, LIMITS).variant(f"{SLUICE}, streaming"),
    ]
    try:
        peers = installed_peers(build()["relay"], [])
    except BenchError as error:
        case.left_out["peers"] = str(error)
        peers = []
    return [*ours, *peers, no_proxy()]
