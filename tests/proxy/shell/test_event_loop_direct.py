"""The event loop with system calls in place of a socket's methods: as the compiled build runs, here also in Python."""

import socket
from collections.abc import Iterator

import pytest

from proxy.core.errors import CloseReason
from proxy.shell import system_calls
from proxy.shell.masks import IN
from proxy.shell.poller import EpollPoller, make_poller
from tests.support.messages import frames as f
from tests.support.shell.sockets import Bench, WatchedPoller, arrived, receive, reset, start_sending

BEAT = f.heartbeat(1)


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Return an event loop that receives, sends and polls by descriptor."""
    monkeypatch.setattr(system_calls, "PAYS", True)  # in the compiled build it is a constant
    if not isinstance(poller := make_poller(), EpollPoller):
        pytest.skip("the system has no epoll")
    poller.close()
    made = Bench()
    yield made
    made.close()


def test_sockets_are_read_and_written_by_descriptor(direct):
    """Each open side has one; none is left when it is closed, because the number may be used again."""
    client, broker, session = direct.link()
    ends = (session.handle, session.handle.other)
    assert [end.direct for end in ends] == [end.fd for end in ends]
    for far in (client, broker):
        far.close()
        direct.run()
        assert [end.direct < 0 for end in ends] == [end.closed for end in ends]
    assert direct.event_loop.open_sockets == 0


def test_requests_and_replies_pass_whole_and_in_pieces(direct):
    """A frame that is cut is carried over and goes out whole."""
    client, broker, _ = direct.link()
    client.sendall(BEAT + f.heartbeat(2)[:5])
    direct.run()
    assert arrived(broker) == BEAT
    client.sendall(f.heartbeat(2)[5:])
    assert direct.receive(broker, len(BEAT)) == f.heartbeat(2)
    for part in (f.heartbeat_reply(1) + f.heartbeat_reply(2)[:3], f.heartbeat_reply(2)[3:]):
        broker.sendall(part)
        direct.run()
    assert arrived(client) == f.heartbeat_reply(1) + f.heartbeat_reply(2)


def test_bytes_that_the_kernel_does_not_take_are_sent_later(direct):
    """More than the sockets hold goes through in both directions, and no byte stays counted."""
    client, broker, session = direct.link()
    for far, end in ((client, session.handle), (broker, session.handle.other)):
        far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        end.transport._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    stream = b"".join(f.heartbeat(n, pad=30_000) for n in range(300))
    sending = start_sending(client, stream)
    direct.run()
    assert direct.held_bytes > 0
    assert direct.receive(broker, len(stream)) == stream
    direct.join(sending)
    replies = b"".join(f.reply(n, bytes(30_000)) for n in range(300))
    sending = start_sending(broker, replies)
    direct.run()
    assert direct.held_bytes > 0
    assert direct.receive(client, len(replies)) == replies
    direct.join(sending)
    direct.run()
    assert direct.held_bytes == 0


def test_an_event_without_bytes_is_passed_over(direct):
    """The kernel may report a socket that has nothing to read."""
    client, broker, session = direct.link()

    class Early(WatchedPoller):
        def seen(self, events):
            return events or [(session.handle.fd, IN)]

    Early(direct)
    assert direct.event_loop.step(0) == 1
    client.sendall(BEAT)
    direct.step_until(lambda: arrived(broker) == BEAT)
    assert direct.event_loop.open_sockets == 2


@pytest.mark.parametrize("side", ["client", "broker"])
@pytest.mark.parametrize("end", ["closes", "resets"])
def test_the_end_of_one_side_ends_the_other(direct, side, end):
    """After a request in flight, by FIN and by RST."""
    client, broker, session = direct.link()
    client.sendall(BEAT)
    assert direct.receive(broker, len(BEAT)) == BEAT
    gone, left = (client, broker) if side == "client" else (broker, client)
    if end == "resets":
        reset(gone)
    else:
        broker.sendall(f.heartbeat_reply(1))
        direct.run()
        gone.close()
    direct.run()
    assert receive(left, 100) in {b"", f.heartbeat_reply(1)}
    left.close()
    direct.run()
    assert direct.event_loop.open_sockets == 0
    assert session.reason in {
        CloseReason.CLIENT_CLOSED,
        CloseReason.CLIENT_RESET,
        CloseReason.BROKER_CLOSED,
        CloseReason.BROKER_RESET,
    }


def test_a_reset_that_a_read_meets_ends_its_session_only(direct):
    """The poll told of bytes, and the connection broke before the read."""
    client, broker, session = direct.link()
    other, other_broker, _ = direct.link()

    class Stale(WatchedPoller):
        def seen(self, events):
            reset(client)
            return [(session.handle.fd, IN)]

    direct.settle()
    poller = Stale(direct)
    direct.event_loop.step(0)
    assert session.reason is CloseReason.CLIENT_RESET
    direct.event_loop.endpoints.poller = poller._poller
    broker.close()
    other.sendall(BEAT)
    assert direct.receive(other_broker, len(BEAT)) == BEAT
