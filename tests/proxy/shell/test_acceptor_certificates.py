"""The certificate of a client reaches its session: the user, and the end."""

from __future__ import annotations

import socket

import trio

from proxy.core.connection_limits import ConnectionLimits
from proxy.core.errors import CloseReason
from proxy.core.observer import Observer
from proxy.shell.acceptor import Acceptor
from proxy.shell.listeners import Listeners
from proxy.shell.tls.listener import SecureClient
from proxy.shell.transport import PlainTransport

LASTS_MS = 60_000


class Secured:
    """A listener that has made the handshake, with a client whose certificate ends at `ends_ms`."""

    def __init__(self, ends_ms: int) -> None:
        self._ends_ms = ends_ms

    def limit(self, limits: ConnectionLimits) -> None:
        """Do nothing: there is one client."""

    async def secure(
        self, accepted: socket.socket, node_id: int | None, _address: str
    ) -> SecureClient:
        return SecureClient(PlainTransport(accepted), node_id, "app", self._ends_ms)


async def test_a_connection_ends_when_the_certificate_of_its_client_does(bench):
    """The session has the certificate's user from its beginning."""
    tls = Secured(bench.clock() + LASTS_MS)
    acceptor = Acceptor(bench.engine, bench.event_loop, Observer(), bench.clock, 10, tls)
    listeners = Listeners("127.0.0.1", [(None, 0)])
    client = socket.create_connection(listeners._bound[0][1].getsockname())
    until = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(acceptor.serve, listeners, until)
        while not any(each.handle for each in bench.engine.sessions):
            await trio.lowlevel.checkpoint()
        (session,) = bench.engine.sessions
        assert (session.peer.user, session.peer.principal_source) == ("app", "tls")
        bench.clock.now_ms += LASTS_MS - 1
        bench.run()
        assert not session.ended
        bench.clock.now_ms += 1
        bench.run()
        assert session.reason is CloseReason.CERTIFICATE_EXPIRED
        assert client.recv(1) == b""
        until.set()
    for each in (client, listeners):
        each.close()
