"""Receive, send and poll by descriptor: the result is an integer, where a socket would raise an exception.

The compiled build has the same functions in C (`system_calls.pxd`), and its event loop calls them instead of a socket's
methods. Those have a price in compiled code: an object for each buffer and number, and an exception for "not now". In
Python the methods are cheaper, so PAYS is False here. `tests/compiled/test_system_calls.py` compares both.

Rules:
- The descriptor does not block. A caller must not use one that it has closed: it may be another connection's.
- The bounds of the buffer are checked.
- The events of a poll are put into one place for MAX_EVENTS (`new_events`), in C an array: a poll makes no objects.
- The interpreter lock is held while bytes are moved, and released by each `poll` that may wait. So another thread waits
  for a step of the event loop at most, and the event loop does not hand the lock over at every call.
"""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

PAYS: Final = False
"""Whether these functions are in C, and so cheaper than the methods of a socket."""
NOT_NOW: Final = -1
"""The kernel has no bytes, or takes none, at this moment."""
BROKEN: Final = -2
"""The connection is lost."""
MAX_EVENTS: Final = 64
"""How many events one poll returns at most."""


def receive(fd: int, buf: bytearray, start: int, stop: int) -> int:
    """Receive into buf[start:stop]; return how many bytes, 0 at the end of the stream, NOT_NOW or BROKEN.

    0 if the place is empty. Raises IndexError if it is not inside the buffer.
    """
    _check(buf, start, stop)
    try:
        return os.readv(fd, [memoryview(buf)[start:stop]])
    except BlockingIOError:
        return NOT_NOW
    except OSError:
        return BROKEN


def send(fd: int, buf: bytearray, start: int, stop: int) -> int:
    """Send buf[start:stop]; return how many bytes the kernel took, NOT_NOW or BROKEN. Raises as `receive`."""
    _check(buf, start, stop)
    try:
        return os.write(fd, memoryview(buf)[start:stop])
    except BlockingIOError:
        return NOT_NOW
    except OSError:
        return BROKEN


def poll(fd: int, timeout_s: float, max_events: int) -> list[tuple[int, int]]:
    """Return at most `max_events` pairs (descriptor, events) of an epoll descriptor; wait `timeout_s` at most.

    Raises OSError if `fd` is no epoll descriptor, and ValueError if `max_events` is not within 1..MAX_EVENTS.
    """
    if not 1 <= max_events <= MAX_EVENTS:
        raise ValueError(f"max_events is {max_events}, not within 1..{MAX_EVENTS}")
    with select.epoll.fromfd(os.dup(fd)) as epoll:
        return epoll.poll(max(timeout_s, 0.0), max_events)


def new_events() -> list[tuple[int, int]]:
    """Return a place for the events of a poll."""
    return []


def poll_into(found: list[tuple[int, int]], fd: int, timeout_s: float, max_events: int) -> int:
    """Poll as `poll` does, put the events into `found`, and return how many."""
    return put_events(found, poll(fd, timeout_s, max_events))


def put_events(found: list[tuple[int, int]], events: Sequence[tuple[int, int]]) -> int:
    """Put at most MAX_EVENTS events into `found`; return how many. Raises IndexError if there are more."""
    count = len(events)
    if count > MAX_EVENTS:
        raise IndexError(f"no room for {count} events")
    found[:] = events
    return count


def event_at(found: list[tuple[int, int]], place: int) -> tuple[int, int]:
    """Return the descriptor and the events at a place that was filled. Raises IndexError beyond the last place."""
    return found[place]


monotonic_ns = time.monotonic_ns


def _check(buf: bytearray, start: int, stop: int) -> None:
    if not 0 <= start <= stop <= len(buf):
        raise IndexError(f"[{start}:{stop}] is not inside {len(buf)} bytes")
