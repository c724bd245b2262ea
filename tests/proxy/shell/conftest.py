"""Fixtures of the tests of the event loop."""

from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio

from proxy.shell import event_loop
from proxy.shell.acceptor import Acceptor
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


@pytest.fixture
def may_accept_of() -> Callable[[Acceptor], Awaitable[Callable[[], bool]]]:
    """Return a function that returns what an acceptor's listeners ask before each accept."""

    async def asked(acceptor: Acceptor) -> Callable[[], bool]:
        found: list[Callable[[], bool]] = []

        class Asking:
            def start(
                self,
                _endpoints: object,
                _accept: object,
                may_accept: Callable[[], bool],
                *_: object,
            ) -> None:
                found.append(may_accept)

            def stop(self) -> None: ...

        until = trio.Event()
        until.set()
        await acceptor.serve(Asking(), until)  # type: ignore[arg-type] # all that it uses of them
        return found[0]

    return asked
