"""Where Trio's events are not seen, the driver lets Trio's tasks run after each turn."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from proxy.shell import trio_scheduler
from proxy.shell.driver import drive
from proxy.shell.stay import BLIND_STAY_MS, TURN_MS
from tests.support.core.fake_event_loop import FakeClock, FakeEventLoop


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide Trio's poll set, as a system without /proc."""
    monkeypatch.setattr(trio_scheduler, "FDINFO", tmp_path / "fdinfo")


async def test_where_trios_events_are_not_seen_its_tasks_run_after_each_turn(bench, nursery, blind):
    """A turn is bounded, although a thousand steps have events, and a wait is short."""
    clock = FakeClock()
    event_loop = FakeEventLoop([1] * 1000, clock)
    nursery.start_soon(drive, event_loop, bench.engine, clock)
    turns = 0
    while event_loop.events:
        turns += 1
        await trio.lowlevel.checkpoint()
    assert turns >= 1000 // (TURN_MS + 3)
    assert max(event_loop.waits) <= BLIND_STAY_MS / 1000
    nursery.cancel_scope.cancel()
    event_loop.close()


async def test_where_trios_events_are_not_seen_it_does_not_wait_while_clients_connect(
    bench, nursery, blind
):
    """Trio connects them, in several passes."""
    clock = FakeClock()
    event_loop = FakeEventLoop([1] * 40, clock)
    event_loop.arriving = 1
    nursery.start_soon(drive, event_loop, bench.engine, clock)
    while event_loop.events:  # noqa: ASYNC110 - nothing tells when the last event was taken
        await trio.sleep(0.001)
    assert set(event_loop.waits) == {0.0}
    nursery.cancel_scope.cancel()
    event_loop.close()
