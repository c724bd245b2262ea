"""Case d: 200 connections produce 10 MiB each at once, as the tasks of a Hadoop job do when it ends.

Rules: all are connected, and answered once, before the first byte of the burst. Through Sluice with a pool of 64 MiB
(whole and streaming), through whatever peer is installed, and straight to the broker; the one that nobody bounds comes
last, because a Java keeps the heap that it once had. Clients wait five minutes.
"""

from __future__ import annotations

import select
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.build import BenchError, build
from bench.memory.connection import Connection, Lost
from bench.memory.figures import (
    Case,
    Resident,
    at_most,
    base_and_most,
    median,
    mib,
    quantile,
    seconds,
)
from bench.memory.frames import FRAMING, MIB, SMALL, error_of, produce_frame
from bench.memory.kafka import FLEETING
from bench.memory.proxies import Running, SluiceSetup, Watch, nothing_between
from bench.memory.resident import forget_most, most_resident_bytes
from bench.variants import SLUICE, Variant, installed

if TYPE_CHECKING:
    from pathlib import Path

    from bench.memory.kafka import Kafka

CONNECTIONS: Final = 200
REQUEST: Final = 10 * MIB
POOL: Final = 64 * MIB
BOUND: Final = POOL + FRAMING + REQUEST - 1
PARTITIONS: Final = 8
PATIENCE_SECONDS: Final = 300.0
SETTINGS: Final = {"queued_max_request_bytes": POOL}
LIMITS: Final = {"socket_request_max_bytes": 16 * MIB}
HEADS: Final = [
    *("", "acked", "refused or ended", "all acked after, s", "wait p50, s", "p99, s"),
    *("proxy: base, MiB", "most, MiB", "broker: most, MiB"),
]


@dataclass(slots=True)
class Burst:
    """What came of it: seconds until each acknowledgement, and what went wrong."""

    waits: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Tasks:
    """The connections. `open` first; then `run`."""

    def __init__(self, port: int, frames: list[bytes], small: bytes, count: int) -> None:
        self._port = port
        self._frames = frames
        self._small = small
        self._count = count
        self._clients: dict[int, Connection] = {}

    def open(self) -> None:
        """Connect all, and have one small request answered on each."""
        for _ in range(self._count):
            client = Connection(self._port)
            error = error_of(client.demand(self._small))
            assert not error, f"error {error} before anything was done"
            self._clients[client.fileno()] = client

    def run(self, patience_s: float) -> Burst:
        """All at once, until the last is answered or the time is up."""
        found = Burst()
        epoll = select.epoll()
        began = time.monotonic()
        for place, client in enumerate(self._clients.values()):
            client.ask(self._frames[place % len(self._frames)], began)
            epoll.register(client.fileno(), client.wanted)
        waiting = set(self._clients)
        while waiting and time.monotonic() < began + patience_s:
            for number, events in epoll.poll(0.1):
                if self._is_over(epoll, self._clients[number], events, found):
                    waiting.discard(number)
                    epoll.unregister(number)
        found.problems += ["not answered"] * len(waiting)
        epoll.close()
        for client in self._clients.values():
            client.close()
        return found

    def _is_over(self, epoll: select.epoll, client: Connection, events: int, found: Burst) -> bool:
        reply: bytes | Lost | None
        if events & select.EPOLLOUT and client.unsent_bytes:
            reply = client.write()
            if not client.unsent_bytes:
                epoll.modify(client.fileno(), client.wanted)
        else:
            reply = client.read()
        if isinstance(reply, Lost):
            found.problems.append(f"{reply.how} after {client.sent_bytes} bytes")
        elif reply is not None and (error := error_of(reply)):
            found.problems.append(f"error {error}")
        elif reply is not None:
            found.waits.append(time.monotonic() - client.began_s)
        return reply is not None


def burst_frames(kafka: Kafka) -> tuple[list[bytes], bytes]:
    """(a request of 10 MiB for each partition of a topic of their own, a small one)."""
    topic = kafka.topic(PARTITIONS, **FLEETING)
    return [produce_frame(topic, REQUEST, part) for part in range(PARTITIONS)], produce_frame(
        topic, SMALL
    )


def run_burst(
    proxy: Running, frames: tuple[list[bytes], bytes], connections: int
) -> tuple[Burst, Resident | None]:
    """The burst through a proxy that runs, and what it had of it; None where there is no proxy."""
    tasks = Tasks(proxy.port, *frames, connections)
    tasks.open()
    if proxy.pid is None:
        return tasks.run(PATIENCE_SECONDS), None
    watch = Watch(proxy)
    found = tasks.run(PATIENCE_SECONDS)
    return found, watch.resident()


def row(title: str, found: Burst, memory: Resident | None, broker_bytes: int | None) -> list[str]:
    """For the table under `HEADS`."""
    return [
        title,
        f"{len(found.waits)}",
        f"{len(found.problems)}",
        seconds(max(found.waits, default=None), 1),
        seconds(median(found.waits), 1),
        seconds(quantile(found.waits, 0.99), 1),
        *base_and_most(memory),
        mib(broker_bytes),
    ]


def measure(kafka: Kafka, folder: Path, connections: int = CONNECTIONS) -> Case:
    """Every way, one after the other."""
    case = Case(
        "d",
        f"d. A burst: {connections} connections produce 10 MiB each at once, a pool of 64 MiB",
        f"{connections * REQUEST / MIB:,.0f} MiB in all, on connections that stand already; with 64 MiB in "
        "the pool the bound is 74 MiB. The broker's memory is that of its whole Java (VmHWM, its heap may "
        "have 3 GiB); the ways come in the order of the table, and it gives little back in between.",
        heads=HEADS,
    )
    kafka.restart()
    frames = burst_frames(kafka)
    for variant in variants(case):
        try:
            with Running(variant, kafka.port, folder / variant.name) as proxy:
                forget_most(kafka.pid)
                found, memory = run_burst(proxy, frames, connections)
        except (BenchError, OSError) as error:
            case.left_out[variant.name] = str(error)
            continue
        case.rows.append(row(variant.name, found, memory, most_resident_bytes(kafka.pid)))
        problems = [*found.problems, *proxy.problems]
        if problems:
            case.left_out[f"{variant.name}: problems, the first"] = "; ".join(problems[:3])
        if variant.name.startswith(SLUICE) and memory is not None:
            acked = len(found.waits)
            case.goals += [
                at_most(f"{variant.name}: not acknowledged", "", connections - acked, 0, 0),
                memory.goal(variant.name, BOUND),
            ]
    return case


def variants(case: Case) -> list[Variant]:
    """Sluice both ways, the peers that are installed, and nothing in between."""
    ours = [
        SluiceSetup(SETTINGS, LIMITS, whole=True).variant(f"{SLUICE}, whole"),
        SluiceSetup(SETTINGS, LIMITS).variant(f"{SLUICE}, streaming"),
    ]
    try:
        known = installed(build(), [])
    except BenchError as error:
        case.left_out["peers"] = str(error)
        known = []
    peers = [each for each in known if each.command and not each.name.startswith(SLUICE)]
    return [*ours, *peers, nothing_between()]
