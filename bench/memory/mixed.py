"""Case a: 200 clients with requests of 1 KiB and 16 MiB that disconnect at random, and a pool of one large request.

The load is a closed loop without pauses, so that requests always wait for memory. Whether a client disconnects, and
after how many bytes, is drawn when its request begins and does not depend on the wait. So long waits are not missing
from the figures. A connection that the proxy ends, and an error code, are problems; the client connects again.
"""

from __future__ import annotations

import random
import select
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.goals import at_most
from bench.harness.figures import median, quantile
from bench.memory.connection import Connection, Lost
from bench.memory.figures import Case, Resident, base_and_peak, longest_gap, seconds
from bench.memory.frames import FRAMING, LARGE, SMALL, error_of, produce_frame
from bench.memory.kafka import FLEETING
from bench.memory.proxies import Running, SluiceSetup, Watch, no_proxy
from bench.variants import SLUICE

if TYPE_CHECKING:
    from pathlib import Path

    from bench.goals import Goal
    from bench.memory.kafka import Kafka

CLIENTS: Final = 200
SECONDS: Final = 60.0
SHORTER: Final = 0.5
LARGE_SHARE: Final = 0.25
LEAVE_SHARE: Final = 0.05
PARTITIONS: Final = 8
POOL: Final = FRAMING + LARGE
BOUND: Final = POOL + POOL - 1
"""The pool is not strict: one request may exceed it while a byte is free (KIP-72)."""
LONGEST_GAP_S: Final = 1.0
LONGEST_WAIT_S: Final = 10.0
LIMITS: Final = {"socket_request_max_bytes": LARGE}
HEADS: Final = [
    *("", "1 KiB acked", "16 MiB acked", "MiB/s"),
    *("1 KiB wait p99, s", "16 MiB wait p50, s", "p99, s"),
    *("longest without a reply, s", "disconnected", "problems", "base, MiB", "peak, MiB"),
]


@dataclass(slots=True)
class Mixed:
    """The outcome. `waits` by request size; `replied` are the times of all replies."""

    began_s: float = 0.0
    ended_s: float = 0.0
    waits: dict[int, list[float]] = field(default_factory=lambda: {SMALL: [], LARGE: []})
    replied: list[float] = field(default_factory=list)
    left: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def longest_gap_s(self) -> float:
        """Return the longest time without any reply, seconds."""
        return longest_gap(self.replied, self.began_s, self.ended_s)

    @property
    def rate_mib(self) -> float:
        """Return the MiB acknowledged per second."""
        acked = sum(size * len(waits) for size, waits in self.waits.items())
        return acked / (1 << 20) / (self.ended_s - self.began_s)


class MixedClients:
    """The clients: call `open`, then `run`."""

    def __init__(
        self, port: int, frames: dict[int, list[bytes]], count: int, seed: int = 1
    ) -> None:
        self.found = Mixed()
        self._port = port
        self._frames = frames
        self._count = count
        self._dice = random.Random(seed)
        self._epoll = select.epoll()
        self._clients: dict[int, Connection] = {}
        self._sizes: dict[int, int] = {}
        self._leave_at: dict[int, int] = {}

    def open(self) -> None:
        """Connect all clients, and get one small request answered on each."""
        for _ in range(self._count):
            client = self.add()
            error = error_of(client.demand(self._dice.choice(self._frames[SMALL])))
            assert not error, f"error {error} before the load"

    def add(self) -> Connection:
        """Connect one more client."""
        client = Connection(self._port)
        self._clients[client.fileno()] = client
        return client

    def run(self, run_s: float) -> Mixed:
        """Run the load for so many seconds; then reset all connections."""
        self.found.began_s = now = time.monotonic()
        for client in list(self._clients.values()):
            self._epoll.register(client.fileno(), 0)
            self._begin(client, now)
        while now < self.found.began_s + run_s:
            for number, events in self._epoll.poll(0.1):
                self._step(self._clients[number], events)
            now = time.monotonic()
        self.found.ended_s = now
        self._epoll.close()
        for client in self._clients.values():
            client.close(reset=True)
        return self.found

    def _begin(self, client: Connection, now: float) -> None:
        size = LARGE if self._dice.random() < LARGE_SHARE else SMALL
        frame = self._dice.choice(self._frames[size])
        number = client.fileno()
        self._sizes[number] = size
        leaves = self._dice.random() < LEAVE_SHARE
        self._leave_at[number] = self._dice.randint(1, len(frame)) if leaves else len(frame) + 1
        client.ask(frame, now)
        self._epoll.modify(number, client.wanted)

    def _step(self, client: Connection, events: int) -> None:
        number = client.fileno()
        if events & select.EPOLLOUT and client.unsent_bytes:
            lost = client.write(self._leave_at[number] - client.sent_bytes)
            if lost is not None:
                self._note_lost(client, lost)
            elif client.sent_bytes >= self._leave_at[number]:
                self.found.left += 1
                self._reconnect(client)
            elif not client.unsent_bytes:
                self._epoll.modify(number, client.wanted)
            return
        reply = client.read()
        if isinstance(reply, Lost):
            self._note_lost(client, reply)
        elif reply is not None:
            now = time.monotonic()
            error = error_of(reply)
            if error:
                self.found.problems.append(f"error {error}")
            else:
                self.found.replied.append(now)
                self.found.waits[self._sizes[number]].append(now - client.began_s)
            self._begin(client, now)

    def _note_lost(self, client: Connection, lost: Lost) -> None:
        self.found.problems.append(f"{lost.how} after {client.sent_bytes} bytes")
        self._reconnect(client)

    def _reconnect(self, client: Connection) -> None:
        number = client.fileno()
        self._epoll.unregister(number)
        del self._clients[number]
        client.close(reset=self._dice.random() < 0.5)  # the other half end with a FIN
        try:
            fresh = self.add()
        except OSError as error:
            self.found.problems.append(f"no new connection: {type(error).__name__}")
            return
        self._epoll.register(fresh.fileno(), 0)
        self._begin(fresh, time.monotonic())


def mixed_frames(kafka: Kafka) -> dict[int, list[bytes]]:
    """Create a topic; return a request of each size for each partition."""
    topic = kafka.topic(PARTITIONS, **FLEETING)
    return {
        size: [produce_frame(topic, size, partition) for partition in range(PARTITIONS)]
        for size in (SMALL, LARGE)
    }


def run_mixed(
    proxy: Running, frames: dict[int, list[bytes]], clients: int, run_s: float
) -> tuple[Mixed, Resident | None]:
    """Run the load through a proxy; return the outcome and the proxy's memory, None without a proxy."""
    load = MixedClients(proxy.port, frames, clients)
    load.open()
    watch = Watch(proxy)
    found = load.run(run_s)
    return found, watch.resident()


def row(title: str, found: Mixed, memory: Resident | None) -> list[str]:
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
        "number of bytes. The pool and the largest request have 16 MiB each, so the bound is 32 MiB. A wait is the "
        "time from the first byte sent to the reply.",
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


def goals(title: str, found: Mixed, memory: Resident, problems: int) -> list[Goal]:
    """Return the goals; those of waits only for `whole`, because streaming requests do not queue for memory."""
    large = quantile(found.waits[LARGE], 0.99)
    waits = [
        at_most(f"{title}: longest time without a reply", "s", found.longest_gap_s, LONGEST_GAP_S),
        at_most(f"{title}: wait of 16 MiB, p99", "s", large, LONGEST_WAIT_S),
    ]
    return [
        *(waits if title.endswith("whole") else ()),
        memory.goal(title, BOUND),
        at_most(f"{title}: connections ended or requests refused", "", problems, 0, 0),
    ]
