"""The load of several cases: clients with one request in flight each, polled together.

It is a closed loop without pauses, so that requests always wait for memory, or one request of each client at once.
The content of a request, and whether its client disconnects before its end, is planned when it begins and does not
depend on the wait. So long waits are not missing from the figures. A connection that the proxy ends, and an error code,
are problems; in the closed loop the client connects again.
"""

import random
import select
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.memory.connection import Connection, Lost
from bench.memory.figures import Resident, longest_gap
from bench.memory.frames import MIB, error_of
from bench.memory.proxies import Watch
from bench.running import Running


class Planned(NamedTuple):
    """A request: what it counts as, its bytes, and after how many of them its client disconnects (0: never)."""

    size_bytes: int
    frame: bytes
    leave_at: int = 0


@dataclass(slots=True)
class Outcome:
    """`waits`: seconds until each acknowledgement, by size. `replied`: the times of all. `left`: clients that left."""

    began_s: float = 0.0
    ended_s: float = 0.0
    waits: defaultdict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
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
        return acked / MIB / (self.ended_s - self.began_s)


class Load:
    """`count` clients of 127.0.0.1:`port`; `plan` returns the next request. With `once` each client has one only."""

    def __init__(
        self, port: int, count: int, plan: Callable[[], Planned], *, once: bool = False
    ) -> None:
        self.found = Outcome()
        self._port = port
        self._count = count
        self._plan = plan
        self._once = once
        self._dice = random.Random(1)
        self._epoll = select.epoll()
        self._clients: dict[int, Connection] = {}
        self._planned: dict[int, Planned] = {}

    def open(self, small: bytes) -> None:
        """Connect all clients, and get this small request answered on each."""
        for _ in range(self._count):
            error = error_of(self.add().demand(small))
            assert not error, f"error {error} before the load"

    def add(self) -> Connection:
        """Connect one more client."""
        client = Connection(self._port)
        self._clients[client.fileno()] = client
        self._epoll.register(client.fileno(), 0)
        return client

    def run(self, run_s: float) -> Outcome:
        """Run the load for so many seconds, with `once` at most; then reset all connections."""
        self.found.began_s = now = time.monotonic()
        for client in list(self._clients.values()):
            self._begin(client, now)
        while now < self.found.began_s + run_s and (self._planned or not self._once):
            for number, events in self._epoll.poll(0.1):
                self._step(self._clients[number], events)
            now = time.monotonic()
        if self._once:
            self.found.problems += ["not answered"] * len(self._planned)
        self.found.ended_s = now
        self._epoll.close()
        for client in self._clients.values():
            client.close(reset=True)
        return self.found

    def _begin(self, client: Connection, now: float) -> None:
        planned = self._planned[client.fileno()] = self._plan()
        client.ask(planned.frame, now)
        self._epoll.modify(client.fileno(), client.wanted)

    def _step(self, client: Connection, events: int) -> None:
        planned = self._planned[client.fileno()]
        reply: bytes | Lost | None
        if events & select.EPOLLOUT and client.unsent_bytes:
            rest = planned.leave_at - client.sent_bytes
            reply = client.write(rest if planned.leave_at else None)
            if reply is None and client.sent_bytes == planned.leave_at:
                self.found.left += 1
                self._replace(client)
            elif not client.unsent_bytes:
                self._epoll.modify(client.fileno(), client.wanted)
        else:
            reply = client.read()
        if isinstance(reply, Lost):
            self.found.problems.append(f"{reply.how} after {client.sent_bytes} bytes")
            self._replace(client)
        elif reply is not None:
            self._count_reply(client, planned, error_of(reply))

    def _count_reply(self, client: Connection, planned: Planned, error: int) -> None:
        now = time.monotonic()
        if error:
            self.found.problems.append(f"error {error}")
        else:
            self.found.replied.append(now)
            self.found.waits[planned.size_bytes].append(now - client.began_s)
        if self._once:
            self._end(client)
        else:
            self._begin(client, now)

    def _end(self, client: Connection) -> None:
        self._epoll.unregister(client.fileno())
        del self._planned[client.fileno()]

    def _replace(self, client: Connection) -> None:
        self._end(client)
        if self._once:
            return
        del self._clients[client.fileno()]
        client.close(reset=self._dice.random() < 0.5)  # the other half end with a FIN
        try:
            fresh = self.add()
        except OSError as error:
            self.found.problems.append(f"no new connection: {type(error).__name__}")
            return
        self._begin(fresh, time.monotonic())


def through(
    proxy: Running, load: Load, small: bytes, run_s: float
) -> tuple[Outcome, Resident | None]:
    """Run a load through a proxy; return the outcome and the proxy's memory, None without a proxy."""
    load.open(small)
    watch = Watch(proxy)
    return load.run(run_s), watch.resident()
