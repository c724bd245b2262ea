"""Fixtures of the tests of the event loop."""

from collections.abc import Callable, Iterator

import pytest
import trio

from proxy.shell import event_loop
from proxy.shell.driver import drive
from tests.support.shell.sockets import Bench


@pytest.fixture
def one_event_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each step the time for one event."""
    monkeypatch.setattr(event_loop, "STEP_BYTES", 1)
    monkeypatch.setattr(event_loop, "SLICE_BYTES", 0)
    monkeypatch.setattr(event_loop, "SLICE_EVENTS", 1)


@pytest.fixture
def start_driver(bench: Bench, nursery: trio.Nursery) -> Iterator[Callable[..., None]]:
    """Return a function that starts a driver for an event loop; the end of the test ends it and closes the loop."""
    driven = []

    def start(event_loop: object, clock: Callable[[], int]) -> None:
        driven.append(event_loop)
        nursery.start_soon(drive, event_loop, bench.engine, clock)

    yield start
    nursery.cancel_scope.cancel()
    for each in driven:
        each.close()
