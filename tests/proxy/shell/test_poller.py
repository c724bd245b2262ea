"""All pollers keep one contract: epoll itself, that of the compiled build, and the selector with epoll's methods."""

import select

import pytest

from proxy.cli.builds import running
from proxy.core.memory.pool import MemoryPool
from proxy.shell import system_calls
from proxy.shell.masks import ERR, HUP, IN, OUT, RDHUP
from proxy.shell.poller import (
    EpollPoller,
    Poller,
    SelectorPoller,
    in_fair_order,
    make_poller,
)
from tests.support.messages.golden import cases
from tests.support.shell.sockets import receive, reset, tcp_pair

EVENTS = [(fd, 1) for fd in range(50)]
KINDS: list[type] = [SelectorPoller, SelectorPoller]
if hasattr(select, "epoll"):
    KINDS[:1] = [select.epoll, EpollPoller]


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
        assert len(events) == len(found), "a poll reported a descriptor twice"
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


def test_a_descriptor_is_readable_until_its_bytes_are_read(rig):
    """The poller is level-triggered: it reports unread bytes again, and nothing without an event."""
    rig.pair(IN)
    assert rig.poll() == {}

    far, near = rig.pair(IN)
    far.sendall(b"ab")
    assert rig.poll(5) == {near.fileno(): IN}
    near.recv(1)
    assert rig.poll(5) == {near.fileno(): IN}
    near.recv(1)
    assert rig.poll() == {}


def test_a_descriptor_with_space_in_its_send_buffer_is_writable(rig):
    """A descriptor may be readable and writable in one event."""
    far, near = rig.pair(OUT)
    assert rig.poll(5) == {near.fileno(): OUT}
    rig.poller.modify(near.fileno(), IN | OUT)
    assert rig.poll(5) == {near.fileno(): OUT}
    far.sendall(b"a")
    select.select([near], [], [], 5)
    assert rig.poll(5) == {near.fileno(): IN | OUT}


def test_only_events_in_the_mask_are_reported(rig):
    """A changed mask takes effect with the next poll."""
    far, near = rig.pair(OUT)
    other_far, other = rig.pair(IN)
    far.sendall(b"a")
    other_far.sendall(b"a")
    select.select([near], [], [], 5)
    assert rig.poll(5)[near.fileno()] == OUT
    rig.poller.modify(near.fileno(), IN)
    rig.poller.modify(other.fileno(), OUT)
    assert rig.poll(5) == {near.fileno(): IN, other.fileno(): OUT}


def test_a_descriptor_with_a_mask_of_0_reports_nothing_until_its_mask_changes(rig):
    """A mask of 0 keeps the descriptor registered."""
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
def test_an_unregistered_descriptor_reports_nothing(rig, mask):
    """Its number may be given to another socket and registered again."""
    far, near = rig.pair(mask)
    far.sendall(b"a")
    select.select([near], [], [], 5)
    rig.poller.unregister(near.fileno())
    assert rig.poll() == {}
    rig.poller.register(near.fileno(), IN)
    assert rig.poll(5) == {near.fileno(): IN}


def test_a_descriptor_is_readable_at_end_of_stream(rig):
    """The read after the event returns no bytes."""
    far, near = rig.pair(IN)
    far.close()
    assert rig.poll(5)[near.fileno()] & IN
    assert near.recv(10) == b""


def test_a_hang_up_is_reported_without_reading(rig):
    """Epoll reports RDHUP when the mask asks for it, the selector never; bytes sent before stay unread."""
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
def test_a_broken_connection_is_reported_for_every_mask(rig, mask):
    """The event is an error, a hang-up, or readiness for the mask; the next call on the socket then fails."""
    far, near = rig.pair(mask)
    reset(far)
    select.select([near], [], [], 5)
    assert rig.poll(5)[near.fileno()] & (ERR | HUP | mask)


def test_a_poll_reports_no_more_events_than_its_limit(rig):
    """The next poll reports the rest."""
    for _ in range(5):
        rig.pair(OUT)
    assert len(rig.poll(5, most=2)) == 2
    assert len(rig.poll(5, most=64)) == 5


def test_no_descriptor_starves_when_more_are_ready_than_a_poll_reports(rig):
    """Descriptors that a poll passed over come first in the next one."""
    fds = {rig.pair(OUT)[1].fileno() for _ in range(5)}
    told: set[int] = set()
    for _ in range(5):
        told |= rig.poll(5, most=2).keys()
    assert told == fds


def test_the_pollers_own_descriptor_can_be_waited_for(rig):
    """It is readable while a poll would return an event, so Trio can wait for all sockets at once."""
    far, near = rig.pair(IN)
    fd = rig.poller.fileno()
    assert select.select([fd], [], [], 0)[0] == []
    far.sendall(b"a")
    assert select.select([fd], [], [], 5)[0] == [fd]
    assert rig.poll(5) == {near.fileno(): IN}
    receive(near, 1)
    assert select.select([fd], [], [], 0)[0] == []


def test_closing_gives_the_descriptor_back():
    """Both kinds of poller close their descriptor."""
    for kind in KINDS:
        poller = kind()
        assert poller.fileno() >= 0
        poller.close()
        with pytest.raises(ValueError, match=r"closed|negative|-1"):
            select.select([poller.fileno()], [], [], 0)


def test_epoll_is_used_where_the_system_has_it(monkeypatch):
    """In the compiled build, where system calls pay, by descriptor. The selector is used elsewhere."""
    made = make_poller()
    assert type(made) is (KINDS[0] if running() == "pure" else KINDS[-2])
    made.close()
    monkeypatch.setattr(system_calls, "PAYS", True)  # in the compiled build it is a constant
    made = make_poller()
    assert type(made) is KINDS[-2]
    made.close()
    monkeypatch.delattr(select, "epoll", raising=False)
    fallback = make_poller()
    assert isinstance(fallback, SelectorPoller)
    fallback.close()


def test_the_order_is_kafkas_while_memory_is_short_and_stays_without_a_bound():
    """Shuffled while more than nothing and less than a tenth is free; each event is kept, and none always last."""
    case = cases("selector.oom")["selector-shuffle"]
    for available, shuffled in zip(case["available"], case["shuffled"], strict=True):
        pool = MemoryPool(case["pool"])
        pool.force_allocate(case["pool"] - available)
        orders = [list(in_fair_order(EVENTS, pool)) for _ in range(3)]
        assert all(sorted(order) == EVENTS for order in orders)
        assert (orders != [EVENTS] * 3) is shuffled

    pool = MemoryPool(1000)
    pool.force_allocate(950)
    first = {in_fair_order(EVENTS[:4], pool)[0][0] for _ in range(200)}
    assert first == {0, 1, 2, 3}

    assert in_fair_order(EVENTS, MemoryPool()) is EVENTS
