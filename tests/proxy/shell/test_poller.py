"""Both pollers keep the same contract: epoll itself, and the selector behind its interface."""

from __future__ import annotations

import select

import pytest

from proxy.shell.poller import ERR, HUP, IN, OUT, RDHUP, Poller, SelectorPoller, make_poller
from tests.support.sockets import receive, reset, tcp_pair

KINDS = [SelectorPoller]
if hasattr(select, "epoll"):
    KINDS.insert(0, select.epoll)


class Rig:
    """A poller and pairs of sockets; the near ends are watched."""

    def __init__(self, kind) -> None:
        self.poller: Poller = kind()
        self.open: list = []

    def pair(self, mask: int | None = None):
        """Far and near end, registered if a mask is given."""
        far, near = tcp_pair()
        near.setblocking(False)
        self.open += [far, near]
        if mask is not None:
            self.poller.register(near.fileno(), mask)
        return far, near

    def poll(self, timeout: float = 0, most: int = 64) -> dict[int, int]:
        found = self.poller.poll(timeout, most)
        events = dict(found)
        assert len(events) == len(found), "a descriptor is told of once"
        return events

    def close(self) -> None:
        self.poller.close()
        for each in self.open:
            each.close()


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def rig(request):
    made = Rig(request.param)
    yield made
    made.close()


def test_nothing_is_told_of_who_has_nothing(rig):
    """And a poll without a timeout returns at once."""
    rig.pair(IN)
    assert rig.poll() == {}


def test_bytes_that_came_make_a_descriptor_readable_until_they_are_read(rig):
    """Level-triggered: what was not taken is told again."""
    far, near = rig.pair(IN)
    far.sendall(b"ab")
    assert rig.poll(5) == {near.fileno(): IN}
    near.recv(1)
    assert rig.poll(5) == {near.fileno(): IN}
    near.recv(1)
    assert rig.poll() == {}


def test_room_makes_a_descriptor_writable(rig):
    """Both may hold at once."""
    far, near = rig.pair(OUT)
    assert rig.poll(5) == {near.fileno(): OUT}
    rig.poller.modify(near.fileno(), IN | OUT)
    assert rig.poll(5) == {near.fileno(): OUT}
    far.sendall(b"a")
    select.select([near], [], [], 5)
    assert rig.poll(5) == {near.fileno(): IN | OUT}


def test_only_what_is_asked_for_is_told(rig):
    """Watching for something else takes effect with the next poll."""
    far, near = rig.pair(OUT)
    other_far, other = rig.pair(IN)
    far.sendall(b"a")
    other_far.sendall(b"a")
    select.select([near], [], [], 5)
    assert rig.poll(5)[near.fileno()] == OUT
    rig.poller.modify(near.fileno(), IN)
    rig.poller.modify(other.fileno(), OUT)
    assert rig.poll(5) == {near.fileno(): IN, other.fileno(): OUT}


def test_a_muted_descriptor_is_silent_and_can_be_heard_again(rig):
    """A mask of 0 keeps it registered."""
    far, near = rig.pair(0)
    far.sendall(b"a")
    select.select([near], [], [], 5)
    assert rig.poll() == {}
    rig.poller.modify(near.fileno(), IN)
    assert rig.poll(5) == {near.fileno(): IN}
    rig.poller.modify(near.fileno(), 0)
    assert rig.poll() == {}
    rig.poller.modify(near.fileno(), 0)
    rig.poller.modify(near.fileno(), OUT)
    assert rig.poll(5) == {near.fileno(): OUT}


@pytest.mark.parametrize("mask", [0, IN, IN | OUT])
def test_who_is_unregistered_is_forgotten_whatever_was_asked(rig, mask):
    """The number may soon be somebody else's."""
    far, near = rig.pair(mask)
    far.sendall(b"a")
    select.select([near], [], [], 5)
    rig.poller.unregister(near.fileno())
    assert rig.poll() == {}
    rig.poller.register(near.fileno(), IN)
    assert rig.poll(5) == {near.fileno(): IN}


def test_the_end_of_the_other_side_wakes_a_reader(rig):
    """It reads no bytes and knows."""
    far, near = rig.pair(IN)
    far.close()
    assert rig.poll(5)[near.fileno()] & IN
    assert near.recv(10) == b""


def test_a_hang_up_can_be_heard_without_reading(rig):
    """Where the system can tell: once it is asked for, and only then. What was sent before stays unread."""
    far, near = rig.pair(RDHUP)
    far.sendall(b"a")
    select.select([near], [], [], 5)
    assert rig.poll() == {}
    far.shutdown(1)
    if isinstance(rig.poller, SelectorPoller):
        assert rig.poll() == {}
    else:
        assert rig.poll(5) == {near.fileno(): RDHUP}
    rig.poller.modify(near.fileno(), 0)
    assert rig.poll() == {}
    rig.poller.modify(near.fileno(), IN)
    assert rig.poll(5)[near.fileno()] == IN
    assert near.recv(10) == b"a"
    assert near.recv(10) == b""


@pytest.mark.parametrize("mask", [IN, OUT, IN | OUT])
def test_a_broken_connection_is_told_to_whoever_asks_for_anything(rig, mask):
    """As an error, a hang-up, or readiness for what was asked: trying it will say."""
    far, near = rig.pair(mask)
    reset(far)
    select.select([near], [], [], 5)
    assert rig.poll(5)[near.fileno()] & (ERR | HUP | mask)


def test_at_most_so_many_are_told_at_once(rig):
    """The rest is told by the next poll."""
    for _ in range(5):
        rig.pair(OUT)
    assert len(rig.poll(5, most=2)) == 2
    assert len(rig.poll(5, most=64)) == 5


def test_nobody_starves_when_more_are_ready_than_are_told(rig):
    """Those who were passed over come first the next time."""
    fds = {rig.pair(OUT)[1].fileno() for _ in range(5)}
    told: set[int] = set()
    for _ in range(5):
        told |= rig.poll(5, most=2).keys()
    assert told == fds


def test_the_poller_can_itself_be_waited_for(rig):
    """Its descriptor is readable while a poll would return something: so Trio waits for all."""
    far, near = rig.pair(IN)
    fd = rig.poller.fileno()
    assert select.select([fd], [], [], 0)[0] == []
    far.sendall(b"a")
    assert select.select([fd], [], [], 5)[0] == [fd]
    assert rig.poll(5) == {near.fileno(): IN}
    receive(near, 1)
    assert select.select([fd], [], [], 0)[0] == []


def test_closing_gives_the_descriptor_back():
    """Of either kind."""
    for kind in KINDS:
        poller = kind()
        assert poller.fileno() >= 0
        poller.close()
        with pytest.raises(ValueError, match=r"closed|negative|-1"):
            select.select([poller.fileno()], [], [], 0)


def test_the_best_there_is_on_this_system_is_made(monkeypatch):
    """Epoll where there is one, the selector elsewhere."""
    made = make_poller()
    assert isinstance(made, KINDS[0])
    made.close()
    monkeypatch.delattr(select, "epoll", raising=False)
    fallback = make_poller()
    assert isinstance(fallback, SelectorPoller)
    fallback.close()
