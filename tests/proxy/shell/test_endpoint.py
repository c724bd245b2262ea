"""One socket of a link: its side, what it waits for first, and its unread bytes."""

import time

from proxy.core.node_health import ByteCount
from proxy.shell.endpoint import Endpoint, find, tls_of, unread_bytes
from proxy.shell.masks import IN
from proxy.shell.transport import PlainTransport
from tests.support.core.sessions import Wire
from tests.support.shell.sockets import tcp_pair
from tests.support.shell.tls import Contexts, tls_link


def test_an_endpoint_knows_its_side_and_is_read_from_at_first():
    """The endpoint with the client's channel is the client's; its first mask is IN."""
    session = Wire().session
    far, near = tcp_pair()
    try:
        transport = PlainTransport(near)
        client = Endpoint(transport, session, session.client, ByteCount())
        broker = Endpoint(transport, session, session.broker, ByteCount())
        assert client.is_client
        assert not broker.is_client
        assert client.expect == IN
        assert client.fd == near.fileno()
    finally:
        far.close()
        near.close()


def test_an_endpoint_is_found_by_its_descriptor_until_it_is_closed(bench):
    """Its number may then be another's. Descriptors that are no endpoint's have none, however large."""
    client, _, session = bench.link()
    endpoints, ends = bench.event_loop.endpoints, (session.handle, session.handle.other)
    assert [find(endpoints, end.fd) for end in ends] == [*ends]
    assert endpoints.open_sockets == 2
    assert find(endpoints, bench.event_loop.fileno()) is None
    assert find(endpoints, 1 << 20) is None
    client.close()
    bench.run()
    assert [find(endpoints, end.fd) for end in ends] == [
        None if end.closed else end for end in ends
    ]
    assert endpoints.open_sockets == [end.closed for end in ends].count(False)


def test_unread_bytes_are_the_bytes_in_the_kernels_receive_buffer(bench):
    """The number grows with what arrives, and falls with what is read; without an open socket it is 0."""
    client, _, session = bench.link()
    assert unread_bytes(session) == 0
    client.sendall(bytes(1000))
    give_up = time.monotonic() + 60
    while unread_bytes(session) < 1000:
        assert time.monotonic() < give_up
    session.handle.recv_into(memoryview(bytearray(300)))
    assert unread_bytes(session) == 700

    client, _, session = bench.link()
    end = session.handle
    client.close()
    bench.run()
    session.handle = end
    assert end.closed
    assert unread_bytes(session) == 0
    assert unread_bytes(Wire().session) == 0


def test_the_tls_of_both_sides_is_known_until_one_of_them_is_closed(bench, tmp_path):
    """Plain sides have none."""
    _, _, plain = bench.link()
    _, _, session = tls_link(bench, Contexts.make(tmp_path))
    assert tls_of(plain) == ("", "")
    protocol = "TLSv1.3 TLS_AES_256_GCM_SHA384"
    assert tls_of(session) == (protocol, protocol)
    session.handle.closed = True
    assert tls_of(session) == ("", "")
    session.handle.closed = False
