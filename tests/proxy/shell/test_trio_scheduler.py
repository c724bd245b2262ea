"""An event of Trio ends a wait in the event loop's own poll set, and the tasks that are ready to run are known."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.shell import trio_scheduler
from proxy.shell.trio_scheduler import TrioScheduler
from tests.support.messages import frames as f
from tests.support.shell.sockets import receive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from proxy.shell.event_loop import EventLoop
    from proxy.shell.poller import Poller

LONG_S = 250
"""Only an event ends a wait of this length before the time limit of the test."""


@asynccontextmanager
async def opened(event_loop: EventLoop) -> AsyncIterator[TrioScheduler]:
    scheduler = TrioScheduler(event_loop)
    await scheduler.open()
    try:
        yield scheduler
    finally:
        scheduler.close()


async def test_trios_poll_set_is_found_with_the_locked_version_of_trio(bench):
    """Without it the driver would leave to Trio every 2 ms, and no other test would fail."""
    async with opened(bench.event_loop) as scheduler:
        assert scheduler.calls
        assert bench.event_loop.endpoints.poller.poll(0, 64) == []


class Waiters:
    """Tasks that wait for an event, and what causes each event, from another thread."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.ours, self.theirs = socket.socketpair()
        self.begin = threading.Event()
        self.token = trio.lowlevel.current_trio_token()

    async def socket(self) -> None:
        await trio.lowlevel.wait_readable(self.ours)
        self.done.append("socket")

    async def thread(self) -> None:
        await trio.to_thread.run_sync(self.begin.wait)
        self.done.append("thread")

    async def signal(self) -> None:
        with trio.open_signal_receiver(signal.SIGUSR1) as signals:
            async for _ in signals:
                self.done.append("signal")
                return

    async def call(self) -> None:
        """Wait for nothing: the call is made without a task."""

    def cause(self, event: str) -> None:
        if event == "socket":
            self.theirs.send(b"x")
        elif event == "thread":
            self.begin.set()
        elif event == "signal":
            os.kill(os.getpid(), signal.SIGUSR1)
        else:
            self.token.run_sync_soon(self.done.append, "call")

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


@pytest.mark.parametrize("event", ["socket", "thread", "signal", "call"])
async def test_an_event_of_a_task_ends_a_wait_for_sockets(bench, nursery, event):
    """A readable socket, the result of a thread, a signal, and a call from another thread."""
    waiters = Waiters()
    nursery.start_soon(getattr(waiters, event))
    await wait_all_tasks_blocked()
    async with opened(bench.event_loop) as scheduler:
        scheduler.enter()
        later = threading.Timer(0.02, waiters.cause, [event])
        later.start()
        while event not in waiters.done:
            bench.event_loop.called = 0
            assert bench.event_loop.step(LONG_S) == 1
            assert bench.event_loop.called
            for _ in range(3):  # a task that handles the event, one that it wakes, and so on
                await trio.lowlevel.checkpoint()
        later.join()
    waiters.close()


async def test_a_task_is_ready_from_the_moment_another_wakes_it_until_it_runs(bench, nursery):
    """The task that asks is not among them."""
    woken = trio.Event()
    nursery.start_soon(woken.wait)
    await wait_all_tasks_blocked()
    async with opened(bench.event_loop) as scheduler:
        assert not scheduler.ready
        woken.set()
        nursery.start_soon(trio.sleep_forever)
        assert len(scheduler.ready) == 2
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        assert not scheduler.ready


async def test_the_next_deadline_is_that_of_the_first_task(autojump_clock, bench, nursery):
    """In ms; 0 if it has passed."""
    async with opened(bench.event_loop) as scheduler:
        nursery.start_soon(trio.sleep, 60)
        nursery.start_soon(trio.sleep, 30)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        assert 0 < scheduler.deadline_ms() <= 30_000
        autojump_clock.jump(31)
        assert scheduler.deadline_ms() == 0


async def test_a_wait_in_trio_ends_when_a_socket_is_ready_again_and_again(bench):
    """Afterwards each poll set sees the other's events no more than before: neither watches itself."""
    client, broker, _ = bench.link()
    async with opened(bench.event_loop) as scheduler:
        for number in range(3):
            client.sendall(f.heartbeat(number))
            await scheduler.wait()
            scheduler.enter()
            assert bench.event_loop.step(0) == 1
            assert receive(broker, len(f.heartbeat(number))) == f.heartbeat(number)
            assert bench.event_loop.step(0) == 0
            scheduler.leave()


async def test_a_wait_in_trio_that_is_cancelled_can_be_followed_by_another(bench):
    """As when a timer is due before a socket is ready."""
    client, _, _ = bench.link()
    async with opened(bench.event_loop) as scheduler:
        for _ in range(3):
            with trio.CancelScope() as scope:
                scope.cancel()
                await scheduler.wait()
        client.sendall(f.heartbeat(1))
        await scheduler.wait()
        assert scheduler.calls


@pytest.mark.parametrize("made", ["missing", "none", "two"])
async def test_where_trios_poll_set_is_not_known_it_is_not_watched(
    bench, monkeypatch, tmp_path, made
):
    """No /proc, no line about the descriptor, and two that could be it. A wait in Trio works as ever."""
    client, _, _ = bench.link()
    fdinfo = tmp_path / "fdinfo"
    monkeypatch.setattr(trio_scheduler, "FDINFO", fdinfo)
    if made != "missing":
        fdinfo.mkdir()
        write(fdinfo, [] if made == "none" else list(range(200)))
    async with opened(bench.event_loop) as scheduler:
        assert not scheduler.calls
        client.sendall(f.heartbeat(1))
        await scheduler.wait()
        assert bench.event_loop.step(0) == 1


def write(fdinfo: Path, watched: list[int]) -> None:
    """Write what two epoll descriptors and a file watch, as Linux does."""
    lines = [f"tfd: {fd:8} events:       19 data: {fd:16x}  pos:0\n" for fd in watched]
    for each in ("3", "7"):
        (fdinfo / each).write_text("pos:\t0\nflags:\t02\n" + "".join(lines))
    (fdinfo / "1").write_text("pos:\t0\nflags:\t02\n")


class FullPoller:
    """A poll set whose user has no watches left."""

    def __init__(self, poller: Poller) -> None:
        self.poller = poller

    def register(self, fd: int, eventmask: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def __getattr__(self, name: str) -> object:
        return getattr(self.poller, name)


async def test_without_watches_left_the_driver_does_without(bench):
    """It waits in Trio instead; the connections are not affected."""
    client, _, _ = bench.link()
    async with opened(bench.event_loop) as scheduler:
        bench.event_loop.endpoints.poller = FullPoller(bench.event_loop.endpoints.poller)
        client.sendall(f.heartbeat(1))
        scheduler.enter()
        assert not scheduler.calls
        scheduler.leave()
        await scheduler.wait()
        assert bench.event_loop.step(0) == 1
