"""Receive, send and poll by descriptor: the same results in Python and in C, with real sockets."""

import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.shell import system_calls
from proxy.shell.masks import ERR, HUP, IN, OUT, RDHUP
from proxy.shell.system_calls import BROKEN, MAX_EVENTS, NOT_NOW
from tests.support.shell.sockets import reset, tcp_pair

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="the system has no epoll")
LONG_S = 60.0
"""Longer than any test waits."""
SIZE = 64


@pytest.fixture(params=["Python", "C"])
def calls(request: pytest.FixtureRequest) -> ModuleType:
    """Return the functions of the module, then those of its type file."""
    return system_calls if request.param == "Python" else request.getfixturevalue("twins")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return the far end of a TCP connection and the near one, which does not block."""
    with open_pair() as both:
        yield both


@contextmanager
def open_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Connect two TCP sockets; the second does not block."""
    far, near = tcp_pair()
    with far, near:
        near.setblocking(False)
        yield far, near


def play(calls: ModuleType, steps: list[tuple[str, int, int]]) -> list[object]:
    """Return what each step of a script returns, and the bytes that both ends have at the end."""
    got: list[object] = []
    buf = bytearray(range(SIZE))
    far, near = socket.socketpair()
    with far, near:
        for end in (far, near):
            end.setblocking(False)
        for what, start, stop in steps:
            if what == "far sends":
                with suppress(OSError):
                    far.send(bytes(range(start)))
            elif what == "far ends":
                with suppress(OSError):
                    far.shutdown(socket.SHUT_WR)
            elif what == "far closes":
                far.close()
            else:
                try:
                    got.append(getattr(calls, what)(near.fileno(), buf, start, stop))
                except IndexError:
                    got.append(IndexError)
        with suppress(OSError):
            got.append(far.recv(1 << 16))
    return [*got, bytes(buf)]


ACTS = ("far sends", "receive", "send", "far ends", "far closes")
PLACES = st.integers(-1, SIZE + 1)


@given(st.lists(st.tuples(st.sampled_from(ACTS), PLACES, PLACES), max_size=12))
def test_both_do_the_same_in_any_script(twins, steps):
    """Bytes in any chunks, the end of the stream, a closed peer, and places that are not inside the buffer."""
    script = [
        (what, abs(start) if what == "far sends" else start, stop) for what, start, stop in steps
    ]

    assert play(twins, script) == play(system_calls, script)


def test_the_constants_are_the_same(twins):
    """All but PAYS, which tells them apart."""
    for name in ("NOT_NOW", "BROKEN", "MAX_EVENTS"):
        assert getattr(twins, name) == getattr(system_calls, name)
    assert twins.PAYS
    assert not system_calls.PAYS


def test_bytes_are_moved_at_their_place(calls, pair):
    """The rest of the buffer stays; an empty socket is "not now", and an ended stream 0."""
    far, near = pair
    buf = bytearray(b"........")
    assert calls.receive(near.fileno(), buf, 0, 8) == NOT_NOW
    assert calls.send(near.fileno(), bytearray(b"01234567"), 2, 5) == 3
    assert far.recv(9) == b"234"
    far.sendall(b"abc")
    far.shutdown(socket.SHUT_WR)
    assert select.select([near], [], [], LONG_S)[0]
    assert calls.receive(near.fileno(), buf, 2, 4) == 2
    assert buf == b"..ab...."
    assert calls.receive(near.fileno(), buf, 0, 8) == 1
    assert calls.receive(near.fileno(), buf, 0, 8) == 0


def test_a_full_socket_takes_a_part_and_then_nothing(calls, pair):
    """The counts add up to the bytes that arrive."""
    far, near = pair
    buf = bytearray(1 << 20)
    sent = 0
    while (took := calls.send(near.fileno(), buf, 0, len(buf))) != NOT_NOW:
        assert took > 0
        sent += took
    near.close()
    arrived = 0
    while chunk := far.recv(1 << 20):
        arrived += len(chunk)
    assert arrived == sent


def test_a_reset_connection_is_broken(calls, pair):
    """For both directions, and no signal ends the process."""
    far, near = pair
    reset(far)
    assert select.select([near], [], [], LONG_S)[0]
    assert calls.receive(near.fileno(), bytearray(8), 0, 8) == BROKEN
    assert calls.send(near.fileno(), bytearray(8), 0, 8) == BROKEN


def test_a_closed_descriptor_is_broken(calls, pair):
    """So is a number that never was one."""
    _, near = pair
    fd = near.fileno()
    near.close()
    for each in (fd, -1):
        assert calls.receive(each, bytearray(8), 0, 8) == BROKEN
        assert calls.send(each, bytearray(8), 0, 8) == BROKEN


@pytest.mark.parametrize(("start", "stop"), [(-1, 4), (0, 9), (5, 4), (9, 9)])
def test_no_byte_outside_the_buffer_is_touched(calls, pair, start, stop):
    """Such a place is an error before the kernel is called."""
    far, near = pair
    far.sendall(b"abc")
    with pytest.raises(IndexError):
        calls.receive(near.fileno(), bytearray(8), start, stop)
    with pytest.raises(IndexError):
        calls.send(near.fileno(), bytearray(8), start, stop)


def test_a_poll_returns_what_epoll_returns(calls):
    """The events of each descriptor, no more than asked for, and none of a quiet one."""
    with ExitStack() as stack:
        epoll = stack.enter_context(select.epoll())
        pairs = [stack.enter_context(open_pair()) for _ in range(5)]
        for place, (far, near) in enumerate(pairs):
            epoll.register(near.fileno(), (IN, IN | OUT, IN | RDHUP, IN, 0)[place])
            if place != 3:
                far.sendall(b"a")
        pairs[2][0].shutdown(socket.SHUT_WR)
        reset(pairs[4][0])
        near = [each.fileno() for _, each in pairs]
        wanted = {near[0]: IN, near[1]: IN | OUT, near[2]: IN | RDHUP, near[4]: ERR | HUP}
        found: dict[int, int] = {}
        while found != wanted:
            found = dict(calls.poll(epoll.fileno(), LONG_S, 64))
        assert sorted(calls.poll(epoll.fileno(), 0, 64)) == sorted(epoll.poll(0, 64))
        assert len(calls.poll(epoll.fileno(), -1, 2)) == 2


def test_a_poll_that_nothing_ends_returns_after_its_timeout(calls):
    """With no event; a time below a millisecond is no busy wait."""
    with select.epoll() as epoll:
        assert calls.poll(epoll.fileno(), 0, 64) == []
        assert calls.poll(epoll.fileno(), 0.0001, 64) == []


def test_a_poll_is_called_with_a_number_of_events_and_an_epoll_descriptor(calls, pair):
    """Anything else is an error."""
    with select.epoll() as epoll:
        for wrong in (0, -1, 65):
            with pytest.raises(ValueError, match="max_events"):
                calls.poll(epoll.fileno(), 0, wrong)
    for wrong in (-1, pair[1].fileno()):
        with pytest.raises(OSError):  # noqa: PT011 - EBADF or EINVAL
            calls.poll(wrong, 0, 64)


EVENT = st.tuples(st.integers(0, (1 << 31) - 1), st.integers(0, (1 << 31) - 1))


@given(events=st.lists(EVENT, max_size=system_calls.MAX_EVENTS))
def test_events_are_put_into_a_place_and_come_out_as_they_were(twins, events):
    """In both, and over those of an earlier poll."""
    for calls in (twins, system_calls):
        found = calls.new_events()
        calls.put_events(found, [(1, 2)] * 3)
        assert calls.put_events(found, events) == len(events)
        assert [calls.event_at(found, place) for place in range(len(events))] == events


def test_no_event_outside_the_place_is_touched(calls):
    """There is room for MAX_EVENTS."""
    found = calls.new_events()
    with pytest.raises(IndexError):
        calls.put_events(found, [(1, 2)] * (MAX_EVENTS + 1))
    with pytest.raises(IndexError):
        calls.event_at(found, MAX_EVENTS)


def test_a_poll_puts_the_events_into_the_place_that_poll_returns(calls, pair):
    """It returns how many; without an event the place is not read."""
    far, near = pair
    with select.epoll() as epoll:
        epoll.register(near.fileno(), IN)
        found = calls.new_events()
        assert calls.poll_into(found, epoll.fileno(), 0, 64) == 0
        far.sendall(b"a")
        assert calls.poll_into(found, epoll.fileno(), LONG_S, 64) == 1
        assert calls.event_at(found, 0) == (near.fileno(), IN)


def test_monotonic_time_is_that_of_python(calls):
    """In nanoseconds."""
    before = time.monotonic_ns()
    assert before <= calls.monotonic_ns() <= time.monotonic_ns()


def test_other_threads_run_while_a_poll_waits(calls, pair):
    """The event comes from one of them."""
    far, near = pair
    with select.epoll() as epoll:
        epoll.register(near.fileno(), IN)
        thread = threading.Timer(0.01, far.sendall, (b"a",))
        thread.start()
        assert calls.poll(epoll.fileno(), LONG_S, 64) == [(near.fileno(), IN)]
        thread.join()


@contextmanager
def alarm(handler) -> Iterator[None]:
    """Call a handler of SIGALRM in 10 ms."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_signal_does_not_end_a_poll(calls):
    """Its handler runs, and the poll waits for the rest of its time."""
    seen: list[int] = []
    with select.epoll() as epoll, alarm(lambda number, _: seen.append(number)):
        while not seen:
            assert calls.poll(epoll.fileno(), 0.2, 64) == []


def test_the_exception_of_a_signal_handler_ends_a_poll(calls):
    """As Ctrl-C does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    with select.epoll() as epoll, pytest.raises(KeyboardInterrupt), alarm(interrupt):
        calls.poll(epoll.fileno(), LONG_S, 64)
