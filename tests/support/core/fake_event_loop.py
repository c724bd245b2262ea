"""An event loop without sockets, and clocks, for tests of the driver."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import trio

from proxy.shell.clock import Clock
from proxy.shell.poller import make_poller
from proxy.shell.steppable import Steppable


class FakeEventLoop(Steppable):
    """Steps are counted; its descriptor never becomes readable."""

    def __init__(self, events: list[int], clock: FakeClock) -> None:
        super().__init__()
        self.events = events
        self.clock = clock
        self.waits: list[float] = []
        self.endpoints = SimpleNamespace(poller=make_poller())
        self.a, self.b = socket.socketpair()

    def step(self, timeout_s: float) -> int:
        self.waits.append(timeout_s)
        self.clock.now_ms += 1
        return self.events.pop(0) if self.events else 0

    def fileno(self) -> int:
        return self.a.fileno()

    def close(self) -> None:
        self.endpoints.poller.close()
        self.a.close()
        self.b.close()


class FakeClock(Clock):
    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms

    def now_us(self) -> int:
        return self.now_ms * 1000


class TrioClock(FakeClock):
    """Follows Trio's clock and starts at the engine's first millisecond."""

    def __init__(self) -> None:
        self.start_s = trio.current_time() - 1000

    def __call__(self) -> int:
        return round((trio.current_time() - self.start_s) * 1000)

    def now_us(self) -> int:
        return self() * 1000
