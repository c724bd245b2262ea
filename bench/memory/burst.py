"""Case d: 200 connections produce 10 MiB each at once, like the load of a Hadoop job at its end.

All are connected, and have had one reply, before the burst. It goes through Sluice with a pool of 64 MiB (whole and
streaming), through the installed peers, and directly to the broker. The unbounded case comes last, because Java does
not shrink its heap. Clients wait for five minutes.
"""

from __future__ import annotations

import select
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.build import build
from bench.goals import at_most
from bench.harness import BenchError
from bench.harness.figures import median, quantile
from bench.harness.usage import peak_bytes, reset_peak
from bench.memory.connection import Connection, Lost
from bench.memory.figures import Case, Resident, base_and_peak, mib, seconds
from bench.memory.frames import FRAMING, MIB, SMALL, error_of, produce_frame
from bench.memory.kafka import FLEETING
from bench.memory.proxies import Running, SluiceSetup, Watch, no_proxy
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
    *("proxy: base, MiB", "peak, MiB", "broker: peak, MiB"),
]


@dataclass(slots=True)
class Burst:
    """The outcome: seconds until each acknowledgement, and the problems."""

    waits: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class BurstClients:
    """The connections: call `open`, then `run`."""

    def __init__(self, port: int, frames: list[bytes], small: bytes, count: int) -> None:
        self._port = port
        self._frames = frames
        self._small = small
        self._count = count
        self._clients: dict[int, Connection] = {}

    def open(self) -> None:
        """Connect all clients, and get one small request answered on each."""
        for _ in range(self._count):
            client = Connection(self._port)
            error = error_of(client.demand(self._small))
            assert not error, f"error {error} before the load"
            self._clients[client.fileno()] = client

    def run(self, patience_s: float) -> Burst:
        """Send all requests at once; wait until all are answered or the time is up."""
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
    """Create a topic; return (a request of 10 MiB for each partition, a small one)."""
    topic = kafka.topic(PARTITIONS, **FLEETING)
    return [produce_frame(topic, REQUEST, part) for part in range(PARTITIONS)], produce_frame(
        topic, SMALL
    )


def run_burst(
    proxy: Running, frames: tuple[list[bytes], bytes], connections: int
) -> tuple[Burst, Resident | None]:
    """Run the burst through a proxy; return the outcome and the proxy's memory, None without a proxy."""
    load = BurstClients(proxy.port, *frames, connections)
    load.open()
    watch = Watch(proxy)
    found = load.run(PATIENCE_SECONDS)
    return found, watch.resident()


def row(title: str, found: Burst, memory: Resident | None, broker_bytes: int | None) -> list[str]:
    """Return a row of the table with `HEADS`."""
    return [
        title,
        f"{len(found.waits)}",
        f"{len(found.problems)}",
        seconds(max(found.waits, default=None), 1),
        seconds(median(found.waits), 1),
        seconds(quantile(found.waits, 0.99), 1),
        *base_and_peak(memory),
        mib(broker_bytes),
    ]


def measure(kafka: Kafka, folder: Path, connections: int = CONNECTIONS) -> Case:
    """Run the burst through each variant."""
    case = Case(
        "d",
        f"d. A burst: {connections} connections produce 10 MiB each at once, a pool of 64 MiB",
        f"{connections * REQUEST / MIB:,.0f} MiB in total, on established connections. With a pool of 64 MiB "
        "the bound is 74 MiB. The broker's memory is that of its Java process (VmHWM); Java returns little "
        "between the variants, which run in the order of the table.",
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
            acked = len(found.waits)
            case.goals += [
                at_most(f"{variant.name}: not acknowledged", "", connections - acked, 0, 0),
                memory.goal(variant.name, BOUND),
            ]
    return case


def variants(case: Case) -> list[Variant]:
    """Return Sluice whole and streaming, the installed peers, and `direct`."""
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
    return [*ours, *peers, no_proxy()]
