"""Case a: 200 clients that mix 1 KiB and 16 MiB produces and go away at random, before a pool of one large request.

Rules: a closed loop without pauses, so somebody always waits for memory. Who will go away, and after how many bytes, is
drawn when the request begins, not by how long it takes: so those that wait long are not missing from the waits. What
the far side ends, or refuses by an error code, is a problem; each is counted, and the client comes again.
"""

from __future__ import annotations

import random
import select
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.memory.connection import Connection, Lost
from bench.memory.figures import (
    Case,
    Resident,
    at_most,
    base_and_most,
    longest_gap,
    median,
    quantile,
    seconds,
)
from bench.memory.frames import FRAMING, LARGE, SMALL, error_of, produce_frame
from bench.memory.kafka import FLEETING
from bench.memory.proxies import Running, SluiceSetup, Watch, nothing_between
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
"""Non-strict: while a byte is free, one request may overdraw (KIP-72)."""
LONGEST_GAP_S: Final = 1.0
LONGEST_WAIT_S: Final = 10.0
LIMITS: Final = {"socket_request_max_bytes": LARGE}
HEADS: Final = [
    *(
        "",
        "1 KiB acked",
        "16 MiB acked",
        "MiB/s",
        "1 KiB wait p99, s",
        "16 MiB wait p50, s",
        "p99, s",
    ),
    *("longest without a reply, s", "went away", "problems", "base, MiB", "most, MiB"),
]


@dataclass(slots=True)
class Mixed:
    """What came of it. `waits` by size; `replied` are the times of all replies."""

    began_s: float = 0.0
    ended_s: float = 0.0
    waits: dict[int, list[float]] = field(default_factory=lambda: {SMALL: [], LARGE: []})
    replied: list[float] = field(default_factory=list)
    left: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def longest_gap_s(self) -> float:
        """The longest time without any reply."""
        return longest_gap(self.replied, self.began_s, self.ended_s)

    @property
    def rate_mib(self) -> float:
        """MiB acknowledged per second."""
        acked = sum(size * len(waits) for size, waits in self.waits.items())
        return acked / (1 << 20) / (self.ended_s - self.began_s)


class Crowd:
    """The clients. `open` first; then `run`."""

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
        """Connect all, and have one small request answered on each."""
        for _ in range(self._count):
            client = self.add()
            error = error_of(client.demand(self._dice.choice(self._frames[SMALL])))
            assert not error, f"error {error} before anything was done"

    def add(self) -> Connection:
        """One more, connected, of which nothing was asked."""
        client = Connection(self._port)
        self._clients[client.fileno()] = client
        return client

    def run(self, run_s: float) -> Mixed:
        """The load, for so many seconds; then all connections are closed, with what is under way."""
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
                self._mourn(client, lost)
            elif client.sent_bytes >= self._leave_at[number]:
                self.found.left += 1
                self._come_again(client)
            elif not client.unsent_bytes:
                self._epoll.modify(number, client.wanted)
            return
        reply = client.read()
        if isinstance(reply, Lost):
            self._mourn(client, reply)
        elif reply is not None:
            now = time.monotonic()
            error = error_of(reply)
            if error:
                self.found.problems.append(f"error {error}")
            else:
                self.found.replied.append(now)
                self.found.waits[self._sizes[number]].append(now - client.began_s)
            self._begin(client, now)

    def _mourn(self, client: Connection, lost: Lost) -> None:
        self.found.problems.append(f"{lost.how} after {client.sent_bytes} bytes")
        self._come_again(client)

    def _come_again(self, client: Connection) -> None:
        number = client.fileno()
        self._epoll.unregister(number)
        del self._clients[number]
        client.close(reset=self._dice.random() < 0.5)  # the other half leave by a FIN
        try:
            fresh = self.add()
        except OSError as error:
            self.found.problems.append(f"no new connection: {type(error).__name__}")
            return
        self._epoll.register(fresh.fileno(), 0)
        self._begin(fresh, time.monotonic())


def mixed_frames(kafka: Kafka) -> dict[int, list[bytes]]:
    """Requests of both sizes, for a topic of their own: one of each for each partition."""
    topic = kafka.topic(PARTITIONS, **FLEETING)
    return {
        size: [produce_frame(topic, size, partition) for partition in range(PARTITIONS)]
        for size in (SMALL, LARGE)
    }


def run_mixed(
    proxy: Running, frames: dict[int, list[bytes]], clients: int, run_s: float
) -> tuple[Mixed, Resident | None]:
    """The load on a proxy that runs, and what it had of it; None where there is no proxy."""
    crowd = Crowd(proxy.port, frames, clients)
    crowd.open()
    if proxy.pid is None:
        return crowd.run(run_s), None
    watch = Watch(proxy)
    found = crowd.run(run_s)
    return found, watch.resident()


def row(title: str, found: Mixed, memory: Resident | None) -> list[str]:
    """For the table under `HEADS`."""
    small, large = found.waits[SMALL], found.waits[LARGE]
    return [
        title,
        f"{len(small):,}",
        f"{len(large):,}",
        f"{found.rate_mib:,.0f}",
        seconds(quantile(small, 0.99)),
        seconds(median(large)),
        seconds(quantile(large, 0.99)),
        seconds(found.longest_gap_s),
        f"{found.left:,}",
        f"{len(found.problems):,}",
        *base_and_most(memory),
    ]


def measure(kafka: Kafka, folder: Path, run_s: float = SECONDS, clients: int = CLIENTS) -> Case:
    """Whole; then for a shorter time streaming, where the pool has no say in who comes first, and direct."""
    shorter_s = run_s * SHORTER
    case = Case(
        "a",
        f"a. {clients} clients, 1 KiB and 16 MiB, a pool of one large request",
        f"{clients} clients for {run_s:g} s (streaming and direct {shorter_s:g} s), each one request after "
        f"another: {LARGE_SHARE:.0%} of 16 MiB, the others of 1 KiB. {LEAVE_SHARE:.0%} are broken off after a "
        "random number of bytes. The pool has 16 MiB, the largest request too, so the bound is 32 MiB. A wait is "
        "from the first byte sent to the reply.",
        heads=HEADS,
    )
    frames = mixed_frames(kafka)
    pool = {"queued_max_request_bytes": POOL}
    ways = (
        (SluiceSetup(pool, LIMITS, whole=True).variant(f"{SLUICE}, whole"), run_s),
        (SluiceSetup(pool, LIMITS).variant(f"{SLUICE}, streaming"), shorter_s),
        (nothing_between(), shorter_s),
    )
    for variant, way_s in ways:
        with Running(variant, kafka.port, folder / variant.name) as proxy:
            found, memory = run_mixed(proxy, frames, clients, way_s)
        problems = [*found.problems, *proxy.problems]
        case.rows.append(row(variant.name, found, memory))
        if memory is not None:
            case.goals += goals(variant.name, found, memory, len(problems))
        if problems:
            case.left_out[f"{variant.name}: problems, the first"] = "; ".join(problems[:3])
    return case


def goals(title: str, found: Mixed, memory: Resident, problems: int) -> list[Goal]:
    """Whoever streams has only those of memory and of peace: nobody stands in a line."""
    large = quantile(found.waits[LARGE], 0.99)
    waits = [
        at_most(f"{title}: longest time without a reply", "s", found.longest_gap_s, LONGEST_GAP_S),
        at_most(f"{title}: wait of 16 MiB, p99", "s", large, LONGEST_WAIT_S),
    ]
    return [
        *(waits if title.endswith("whole") else ()),
        memory.goal(title, BOUND),
        at_most(f"{title}: ended or refused by the far side", "", problems, 0, 0),
    ]
