"""The readiness of many sockets: epoll on Linux, a slower selector with the same interface elsewhere."""

from __future__ import annotations

import select
import selectors
from random import shuffle
from typing import TYPE_CHECKING, Protocol

from proxy.shell import system_calls
from proxy.shell.masks import IN, OUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.core.memory.pool import MemoryPool


class Poller(Protocol):
    """A set of watched descriptors: level-triggered, with epoll's masks."""

    def fileno(self) -> int:
        """Return a descriptor that is readable while `poll(0)` would return an event."""

    def register(self, fd: int, eventmask: int) -> None:
        """Start to watch a descriptor. Raises OSError if the system has no watch left."""

    def modify(self, fd: int, eventmask: int) -> None:
        """Watch for other events. Errors and hang-ups are always reported."""

    def unregister(self, fd: int) -> None:
        """Stop watching."""

    def poll(self, timeout: float, maxevents: int) -> Sequence[tuple[int, int]]:
        """Return at most `maxevents` pairs (descriptor, events); wait `timeout` seconds at most."""

    def close(self) -> None:
        """Close the descriptor."""


class SelectorPoller:
    """The standard library's best selector (kqueue on macOS) behind epoll's interface."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._masks: dict[int, int] = {}
        self._passed = 0

    def fileno(self) -> int:
        """See Poller. Kqueue and epoll selectors have a descriptor."""
        return int(self._selector.fileno())

    def register(self, fd: int, eventmask: int) -> None:
        """See Poller. A mask of 0 is not registered: selectors cannot watch for errors only."""
        self._masks[fd] = 0
        self.modify(fd, eventmask)

    def modify(self, fd: int, eventmask: int) -> None:
        """See Poller."""
        before, self._masks[fd] = self._masks[fd], eventmask
        mask = (selectors.EVENT_READ if eventmask & IN else 0) | (
            selectors.EVENT_WRITE if eventmask & OUT else 0
        )
        if before & (IN | OUT):
            if mask:
                self._selector.modify(fd, mask)
            else:
                self._selector.unregister(fd)
        elif mask:
            self._selector.register(fd, mask)

    def unregister(self, fd: int) -> None:
        """See Poller."""
        if self._masks.pop(fd) & (IN | OUT):
            self._selector.unregister(fd)

    def poll(self, timeout: float, maxevents: int) -> Sequence[tuple[int, int]]:
        """See Poller."""
        ready = self._selector.select(timeout)
        if len(ready) > maxevents:  # start after the last poll's events: no socket starves
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


class EpollPoller:
    """An epoll set whose `poll` is one of `system_calls`. Where those do not pay, `select.epoll` itself is cheaper."""

    __slots__ = ("_epoll", "fd", "fileno", "modify", "register", "unregister")

    def __init__(self) -> None:
        self._epoll = epoll = select.epoll()
        self.fd = epoll.fileno()
        self.fileno = epoll.fileno
        self.register = epoll.register
        self.modify = epoll.modify
        self.unregister = epoll.unregister

    def poll(self, timeout: float, maxevents: int) -> Sequence[tuple[int, int]]:
        """See Poller."""
        return system_calls.poll(self.fd, timeout, maxevents)

    def close(self) -> None:
        """See Poller."""
        self.fd = -1
        self._epoll.close()


def make_poller() -> Poller:
    """Return a poller: epoll where the system has it, else a selector."""
    if not hasattr(select, "epoll"):
        return SelectorPoller()
    return EpollPoller() if system_calls.PAYS else select.epoll()


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
