"""Trio's scheduler: the driver waits for the events of Trio's tasks in the event loop's own poll set.

Rules:
- The event loop's poll set watches Trio's own epoll descriptor while the driver waits there. So the sockets of Trio's
  tasks (listeners, admin server, dialer), results of threads and signals end the wait at once.
- Trio does not tell its descriptor. Linux lists in /proc/self/fdinfo what each epoll descriptor watches; Trio's is the
  one that watches `_gate` once a task has waited for it. No private attribute of Trio is used.
- An instrument of Trio notes the tasks that are ready to run. Only Trio's tasks change its next deadline.
- Two poll sets may not watch each other. While the driver waits in Trio, it waits for `_gate`, which then watches the
  event loop's poll set; otherwise `_gate` is empty.
- Without epoll or /proc the descriptor is not found, and the driver leaves to Trio every few milliseconds.
"""

from __future__ import annotations

import select
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from proxy.shell.masks import IN

if TYPE_CHECKING:
    from proxy.shell.event_loop import EventLoop
    from proxy.shell.poller import Poller

FDINFO = Path("/proc/self/fdinfo")


class ReadyTasks(trio.abc.Instrument):
    """The tasks that are ready to run. A task that runs is not among them."""

    def __init__(self) -> None:
        self.tasks: set[trio.lowlevel.Task] = set()

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """Note a task that has become ready."""
        self.tasks.add(task)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note that it runs now."""
        self.tasks.discard(task)


class TrioScheduler:
    """Trio's scheduler as the driver sees it: what is ready to run, and when it must have its turn."""

    def __init__(self, event_loop: EventLoop) -> None:
        self._event_loop = event_loop
        self._instrument = ReadyTasks()
        self._gate: select.epoll | None = None
        self._fd = -1
        self.ready = self._instrument.tasks
        """Tasks that are ready to run. They run while the driver waits in Trio, or at a checkpoint of it."""

    @property
    def calls(self) -> bool:
        """Return whether an event of Trio ends a wait in the event loop's poll set."""
        return self._fd >= 0

    async def open(self) -> None:
        """Start to note ready tasks, and find Trio's descriptor."""
        trio.lowlevel.add_instrument(self._instrument)
        if hasattr(select, "epoll"):
            self._gate = select.epoll()
            self._fd = await _find_watching(self._gate.fileno())
        for _ in range(2):  # the tasks that were ready before have run then
            await trio.lowlevel.checkpoint()
        if self.calls and self._gate is not None:
            self._register(self._gate, self._event_loop.fileno())

    def close(self) -> None:
        """Undo `open`. The event loop may be closed already."""
        trio.lowlevel.remove_instrument(self._instrument)
        if self.calls:
            with suppress(OSError, ValueError):  # closed, or not watched at the moment
                self._event_loop.endpoints.poller.unregister(self._fd)
        if self._gate is not None:
            self._gate.close()

    def deadline_ms(self) -> float:
        """Return in how many ms a task of Trio is due."""
        left_s = trio.lowlevel.current_statistics().seconds_to_next_deadline
        return max(0.0, left_s * 1000)

    async def wait(self) -> None:
        """Wait in Trio until a socket of the event loop is ready. Not between `enter` and `leave`."""
        sockets = self._event_loop.fileno()
        await trio.lowlevel.wait_readable(self._gate if self._gate and self.calls else sockets)

    def enter(self) -> None:
        """From now on an event of Trio ends a wait in the event loop's poll set."""
        if self._gate is not None and self.calls:
            self._gate.unregister(self._event_loop.fileno())
            self._register(self._event_loop.endpoints.poller, self._fd)

    def leave(self) -> None:
        """From now on the driver waits in Trio."""
        if self._gate is not None and self.calls:
            self._event_loop.endpoints.poller.unregister(self._fd)
            self._register(self._gate, self._event_loop.fileno())

    def _register(self, poller: Poller, fd: int) -> None:
        try:
            poller.register(fd, IN)
        except OSError:  # the user has no watches left
            self._fd = -1


async def _find_watching(fd: int) -> int:
    """Return the descriptor of Trio's poll set: the only one that watches `fd` after a wait for it; -1 if unknown."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await trio.lowlevel.wait_readable(fd)
    return _only_watcher_of(fd)


def _only_watcher_of(fd: int) -> int:
    try:
        found = [int(each.name) for each in FDINFO.iterdir() if fd in _watched_by(each)]
    except OSError:
        return -1
    return found[0] if len(found) == 1 else -1


def _watched_by(fdinfo: Path) -> list[int]:
    """Return the descriptors that an epoll descriptor watches (proc(5): lines `tfd: FD events: ...`)."""
    try:
        lines = fdinfo.read_text().splitlines()
    except FileNotFoundError:  # closed since it was listed
        return []
    return [int(line.split()[1]) for line in lines if line.startswith("tfd:")]
