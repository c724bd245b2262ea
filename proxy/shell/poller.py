"""The readiness of many sockets: epoll on Linux, a slower selector with the same interface elsewhere."""

from __future__ import annotations

import select
import selectors
from random import shuffle
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.core.memory.pool import MemoryPool

IN = 1
OUT = 4
ERR = 8
HUP = 16
RDHUP = 0x2000
"""The other side has said its last byte, whether or not it is being read. Where only epoll knows
this, nobody else reports it."""


class Poller(Protocol):
    """Level-triggered; masks are epoll's."""

    def fileno(self) -> int:
        """Readable while `poll(0)` would return something."""

    def register(self, fd: int, eventmask: int) -> None:
        """Begin to watch."""

    def modify(self, fd: int, eventmask: int) -> None:
        """Watch for something else. Errors and hang-ups are always reported."""

    def unregister(self, fd: int) -> None:
        """Stop watching."""

    def poll(self, timeout: float, maxevents: int) -> Sequence[tuple[int, int]]:
        """(descriptor, events) of at most `maxevents`; waits at most `timeout` seconds."""

    def close(self) -> None:
        """Give the descriptor back."""


class SelectorPoller:
    """The standard library's best selector (kqueue on macOS) behind epoll's interface."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._masks: dict[int, int] = {}
        self._passed = 0

    def fileno(self) -> int:
        """Kqueue and epoll selectors have one."""
        return int(self._selector.fileno())

    def register(self, fd: int, eventmask: int) -> None:
        """A mask of 0 is not registered at all: selectors know no "errors only"."""
        self._masks[fd] = 0
        self.modify(fd, eventmask)

    def modify(self, fd: int, eventmask: int) -> None:
        """See Poller."""
        before, self._masks[fd] = self._masks[fd], eventmask
        wanted = (selectors.EVENT_READ if eventmask & IN else 0) | (
            selectors.EVENT_WRITE if eventmask & OUT else 0
        )
        if before & (IN | OUT):
            if wanted:
                self._selector.modify(fd, wanted)
            else:
                self._selector.unregister(fd)
        elif wanted:
            self._selector.register(fd, wanted)

    def unregister(self, fd: int) -> None:
        """See Poller."""
        if self._masks.pop(fd) & (IN | OUT):
            self._selector.unregister(fd)

    def poll(self, timeout: float, maxevents: int) -> Sequence[tuple[int, int]]:
        """See Poller."""
        ready = self._selector.select(timeout)
        if len(ready) > maxevents:  # begin where the last poll left off, so that nobody starves
            self._passed %= len(ready)
            ready = (ready[self._passed :] + ready[: self._passed])[:maxevents]
            self._passed += maxevents
        return [
            (
                key.fd,
                (IN if events & selectors.EVENT_READ else 0)
                | (OUT if events & selectors.EVENT_WRITE else 0),
            )
            for key, events in ready
        ]

    def close(self) -> None:
        """See Poller."""
        self._selector.close()


def make_poller() -> Poller:
    """The best there is on this system."""
    return select.epoll() if hasattr(select, "epoll") else SelectorPoller()


def in_fair_order(events: Sequence[tuple[int, int]], pool: MemoryPool) -> Sequence[tuple[int, int]]:
    """Return the events in random order while the pool is low, else as they are (Kafka's determineHandlingOrder).

    The poll set has an order of its own. With little memory left the first events take it, so without this the same
    connections would always come last.
    """
    if not pool.is_low():
        return events
    mixed = list(events)
    shuffle(mixed)
    return mixed
