"""Clients that leave before their broker is dialled."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import pytest
import trio

from proxy.core.errors import CloseReason
from proxy.core.observer import Observer
from proxy.shell.acceptor import Acceptor
from proxy.shell.listeners import Listeners
from tests.support import frames as f

if TYPE_CHECKING:
    from proxy.shell.dialer import Upstream


class CountedDials:
    """A dialer whose brokers do not answer."""

    count = 0

    async def reach(self, node_id: int | None) -> Upstream:
        self.count += 1
        await trio.sleep_forever()


@pytest.mark.parametrize("resets", [False, True])
async def test_no_broker_is_dialled_for_a_client_that_has_left_without_a_byte(bench, resets):
    """It was a probe, or a connection of our own; a client that sends something and leaves is served."""
    dials = CountedDials()
    acceptor = Acceptor(bench.engine, bench.event_loop, dials, Observer(), bench.clock, 10)
    listeners = Listeners("127.0.0.1", [(None, 0)])
    address = listeners._bound[0][1].getsockname()
    for says in (b"", b"", f.heartbeat(1)):
        client = socket.create_connection(address)
        client.sendall(says)
        if resets and not says:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    until = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(acceptor.serve, listeners, until)
        while len(bench.engine.observer.closed) < (0 if resets else 2) or not dials.count:
            await trio.lowlevel.checkpoint()
        until.set()
    assert dials.count == 1
    closed = [] if resets else [(CloseReason.CLIENT_CLOSED, "")] * 2
    assert bench.engine.observer.closed == [*closed, (CloseReason.DRAINED, "")]
    listeners.close()
