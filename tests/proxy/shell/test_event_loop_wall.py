"""The outer wall: an exception that no narrower handler catches ends one session, timer or client only."""

import errno

import pytest

from policies.api import Hold
from proxy.core.errors import CloseReason
from proxy.core.session.held_request import HeldRequest
from proxy.shell.transport import PlainTransport
from tests.support.core.policies import Recorder
from tests.support.core.sessions import make_engine
from tests.support.messages import frames as f
from tests.support.shell.sockets import WatchedPoller, arrived, receive, tcp_pair

BEAT = len(f.heartbeat(1))


def boom(*_: object) -> int:
    raise RuntimeError("a bug")


def test_an_exception_out_of_one_session_ends_that_session_only(bench):
    """The rest of the step's events are handled, the fault is reported, both sockets are closed."""
    links = [bench.link() for _ in range(5)]
    _, _, guilty = links[2]
    receive_into = guilty.handle.recv_into

    def fail_once(area: memoryview) -> int:
        guilty.handle.recv_into = receive_into
        return boom(receive_into(area))

    guilty.handle.recv_into = fail_once
    guilty.handle.direct = -1  # the compiled event loop calls `recv_into`, too
    bench.settle()
    for client, _, _ in links:
        client.sendall(f.heartbeat(1))
    assert bench.event_loop.step(0.5) == 5
    for _, broker, session in links:
        assert arrived(broker) == (b"" if session is guilty else f.heartbeat(1))
    assert guilty.reason is CloseReason.INTERNAL
    assert [str(error) for error in bench.engine.observer.internal] == ["a bug"]
    for far in links[2][:2]:
        far.close()
    bench.run()
    assert bench.event_loop.open_sockets == 8
    assert len(bench.engine.sessions) == 4


def test_an_exception_in_a_turn_ends_that_session_only(bench, monkeypatch):
    """Its place in the queue is removed; the sessions after it have their turns."""
    links = [bench.link() for _ in range(3)]
    guilty = links[0][2].claim
    on_turn_over = bench.engine.reservations.on_turn_over

    def end_turn(claim):
        if claim is guilty:
            boom()
        on_turn_over(claim)

    monkeypatch.setattr(bench.engine.reservations, "on_turn_over", end_turn)
    for _, _, session in links:
        session.drain()
        bench.engine.ask_for_turn(session)
    bench.run()
    assert len(bench.engine.observer.internal) >= 1
    assert [receive(client, 1) for client, _, _ in links] == [b""] * 3


def test_a_session_that_raises_while_it_ends_is_closed_all_the_same(bench, monkeypatch):
    """Its sockets are closed and it leaves the engine's sessions, although all its methods that end it raise."""
    client, broker, session = bench.link()
    other, other_broker, _ = bench.link()
    for name in ("from_client", "end", "release", "fail"):
        whole = getattr(type(session), name)

        def fail(each, *args, whole=whole):
            return boom() if each is session else whole(each, *args)

        monkeypatch.setattr(type(session), name, fail)
    client.sendall(f.heartbeat(1))
    other.sendall(f.heartbeat(1))
    bench.run()
    assert receive(other_broker, BEAT) == f.heartbeat(1)
    assert receive(client, 1) == b""
    assert receive(broker, 1) == b""
    client.close()
    broker.close()
    bench.run()
    assert bench.event_loop.open_sockets == 2
    assert session not in bench.engine.sessions
    assert session.reason is CloseReason.INTERNAL
    assert len(bench.engine.observer.internal) >= 1


def test_an_exception_out_of_a_timer_ends_that_timer_only(bench):
    """The other timers of the same moment fire, and the next step runs."""
    fired: list[int] = []
    at_ms = bench.clock() + 10
    bench.engine.timers.arm(at_ms, fired.append)
    bench.engine.timers.arm(at_ms, boom)
    bench.engine.timers.arm(at_ms, fired.append)
    bench.clock.now_ms += 10
    bench.run()
    assert fired == [at_ms, at_ms]
    assert [str(error) for error in bench.engine.observer.internal] == ["a bug"]


def test_a_session_that_cannot_be_registered_leaves_no_socket_open(bench, monkeypatch):
    """The kernel refuses the second registration: the caller gets the exception, and no socket stays registered."""

    class Full(WatchedPoller):
        registered = 0

        def register(self, fd: int, eventmask: int) -> None:
            self.registered += 1
            if self.registered == 2:
                raise OSError(errno.ENOSPC, "no space left on device")
            self._poller.register(fd, eventmask)

    Full(bench)
    (client, near_client), (broker, near_broker) = tcp_pair(), tcp_pair()
    session = bench.engine.connect("127.0.0.1", 1, None)
    with pytest.raises(OSError, match="no space"):
        bench.event_loop.attach(session, PlainTransport(near_client), PlainTransport(near_broker))
    assert bench.event_loop.open_sockets == 0
    for near in (near_client, near_broker):
        near.close()
    session.release(0)
    bench.far += [client, broker]
    bench.link()
    assert bench.event_loop.open_sockets == 2


def test_an_exception_at_the_deadline_of_a_held_request_ends_its_session_only(
    make_bench, monkeypatch
):
    """The client gets no reply; another held request is forwarded."""
    holding = make_bench(make_engine([Recorder(lambda _: Hold(1000, "key"))]))
    links = [holding.link() for _ in range(2)]
    for client, _, _ in links:
        client.sendall(f.heartbeat(1))
    holding.run()
    guilty, other = links[0][2], links[1][2]
    charge = HeldRequest._account

    def account(held, now_ms):
        if held.owner is guilty and not guilty.ended:
            boom()
        charge(held, now_ms)

    monkeypatch.setattr(HeldRequest, "_account", account)
    holding.clock.now_ms += 1000
    holding.run()
    assert guilty.reason is CloseReason.INTERNAL
    assert other.reason is None
    assert arrived(links[1][1]) == f.heartbeat(1)
    assert [str(error) for error in holding.engine.observer.internal] == ["a bug"]
