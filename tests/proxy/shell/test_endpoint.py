"""An endpoint is one socket of a link: its side, its descriptor and its first event mask."""

from __future__ import annotations

from proxy.shell.endpoint import Endpoint
from proxy.shell.poller import IN
from proxy.shell.transport import PlainTransport
from tests.support.sessions import Wire
from tests.support.sockets import tcp_pair


def test_an_endpoint_knows_its_side_and_is_read_from_at_first():
    """The endpoint with the client's channel is the client's; its first mask is IN."""
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
