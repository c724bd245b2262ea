"""One socket of a link: which of the two it is, and what it waits for at first."""

from __future__ import annotations

from proxy.shell.endpoint import Endpoint
from proxy.shell.poller import IN
from proxy.shell.transport import PlainTransport
from tests.support.sessions import Wire
from tests.support.sockets import tcp_pair


def test_an_end_knows_its_side_and_is_read_from_at_first():
    """The client's end has the client's channel."""
    session = Wire().session
    far, near = tcp_pair()
    try:
        transport = PlainTransport(near)
        client = Endpoint(transport, session, session.client, session.from_client, [0])
        broker = Endpoint(transport, session, session.broker, session.from_broker, [0])
        assert client.is_client
        assert not broker.is_client
        assert client.expect == IN
        assert client.fd == near.fileno()
    finally:
        far.close()
        near.close()
