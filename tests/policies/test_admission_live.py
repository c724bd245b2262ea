"""`admission` in the core: held bytes, ending sessions, and the bound as a broker sees it."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from policies.admission import Admission, AdmissionConfig, ImportanceRule
from policies.testing import BenchHost
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from wire.errors import ErrorCode

VIP = ImportanceRule(client_id="vip", level=1)


class Room:
    """An engine with one admission policy, and sessions to one of its brokers."""

    def __init__(self, wires=3, in_flight=1, **config):
        host = BenchHost()
        settings = AdmissionConfig(
            max_in_flight_requests_per_node=in_flight, importance=(VIP,), **config
        )
        self.policy = Admission(settings, host)
        self.engine = make_engine([self.policy])
        host.wake = self.engine.wake
        self.wires = [Wire(self.engine, node_id=1) for _ in range(wires)]

    def assert_nothing_left(self):
        for wire in self.wires:
            wire.release()
        assert (self.policy.in_flight(1), self.policy.waiting(1)) == (0, 0)
        assert not self.policy._places
        assert not self.policy._tickets
        assert self.wires[0].held_bytes == 0


def refused(correlation_id):
    """ListOffsets v1 with one partition, refused."""
    code = struct.pack(">hqq", ErrorCode.THROTTLING_QUOTA_EXCEEDED, -1, -1)
    one = struct.pack(">i", 1)
    return f.reply(correlation_id, one + f.string("t") + one + struct.pack(">i", 0) + code)


def list_offsets(correlation_id, client_id="tests"):
    """ListOffsets v1 for one partition."""
    one = struct.pack(">i", 1)
    body = struct.pack(">i", -1) + one + f.string("t") + one + struct.pack(">iq", 0, -1)
    return f.request(f.LIST_OFFSETS, 1, correlation_id, body, client_id=client_id)


def test_a_held_request_is_forwarded_unchanged_when_a_place_is_free():
    """It waited on another connection; its client's later requests follow it."""
    room = Room()
    first, second, _ = room.wires
    first.client(list_offsets(1))
    second.client(list_offsets(2) + f.heartbeat(3), chunk=7)
    assert (first.to_broker, second.to_broker) == (list_offsets(1), b"")

    first.broker(f.reply(1, b"x" * 20))
    assert second.to_broker == list_offsets(2) + f.heartbeat(3)
    room.assert_nothing_left()


def test_one_connection_that_pipelines_waits_for_itself():
    """The reply to its first request admits its second; both are answered in order."""
    room = Room()
    wire = room.wires[0].client(list_offsets(1) + list_offsets(2) + f.produce(3))
    assert wire.to_broker == list_offsets(1)
    wire.broker(f.reply(1, b"one"))
    assert wire.to_broker == list_offsets(1) + list_offsets(2)
    wire.broker(f.reply(2, b"two")).broker(f.produce_reply(3))
    assert wire.to_broker == list_offsets(1) + list_offsets(2) + f.produce(3)
    assert wire.to_client == f.reply(1, b"one") + f.reply(2, b"two") + f.produce_reply(3)
    room.assert_nothing_left()


def test_a_hold_that_is_over_is_refused_in_its_apis_shape():
    """The broker never sees the request, and the connection stays open."""
    room = Room(max_wait_ms=500)
    first, second, _ = room.wires
    first.client(list_offsets(1))
    second.client(list_offsets(2) + f.heartbeat(3))
    second.advance(500)
    assert second.to_client == refused(2)
    assert second.to_broker == f.heartbeat(3)
    assert not second.session.ended
    room.assert_nothing_left()


def test_a_request_shed_for_a_higher_priority_is_answered():
    """It was held on one connection, and is refused because of a request on another."""
    room = Room(max_queued_requests=1)
    first, second, third = room.wires
    first.client(list_offsets(1))
    second.client(list_offsets(2))
    third.client(list_offsets(3, "vip"))
    assert second.to_client == refused(2)
    first.broker(f.reply(1, b"x"))
    assert third.to_broker == list_offsets(3, "vip")
    room.assert_nothing_left()


def test_a_client_that_hangs_up_gives_its_place_to_the_next():
    """A waiting client frees its place in the queue; one in flight frees its place when its connection is closed."""
    room = Room()
    first, second, third = room.wires
    first.client(list_offsets(1))
    second.client(list_offsets(2))
    third.client(list_offsets(3))
    second.hang_up()
    assert room.policy.waiting(1) == 1
    first.release()
    third.advance(0)
    assert (second.to_broker, third.to_broker) == (b"", list_offsets(3))
    room.assert_nothing_left()


def test_a_drain_refuses_waiting_requests_and_finishes_those_in_flight():
    """A drain is the last chance of a waiting request to get a reply."""
    room = Room()
    first, second, third = room.wires
    first.client(list_offsets(1))
    second.client(list_offsets(2))
    third.client(list_offsets(3))
    second.drain()
    assert (second.to_client, third.to_client) == (refused(2), refused(3))
    first.broker(f.reply(1, b"x"))
    assert first.to_client == f.reply(1, b"x")
    assert all(wire.session.ended for wire in room.wires)
    room.assert_nothing_left()


def test_sluices_own_reply_frees_the_place_of_a_hanging_broker():
    """Otherwise a hanging broker would keep its places for ever."""
    room = Room(max_wait_ms=60_000)
    first, second, _ = room.wires
    first.client(f.produce(1))  # its timeout is 30 s
    second.client(list_offsets(2))
    second.advance(29_600)
    assert first.to_client
    assert second.to_broker == list_offsets(2)
    room.assert_nothing_left()


WIRES = 4
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "produce", "reply", "hang up", "cut", "advance"]),
        st.integers(0, WIRES - 1),
        st.sampled_from([5, 1 << 18]),
    ),
    max_size=50,
)


def begun(sent):
    """Return how many frames of this stream have begun."""
    count = at = 0
    while at < len(sent):
        at += 4 + (struct.unpack_from(">i", sent, at)[0] if len(sent) - at >= 4 else 0)
        count += 1
    return count


class Play:
    """Clients, and brokers that answer on command."""

    def __init__(self, bound):
        self.bound = bound
        self.room = Room(WIRES, bound, max_queued_requests=3, max_wait_ms=1000)
        self.wires = self.room.wires
        self.asked = [0] * WIRES
        self.replied = [0] * WIRES
        self.gone = set()

    def in_flight(self, place):
        if place in self.gone:
            return 0
        return begun(self.wires[place].to_broker) - self.replied[place]

    def step(self, what, place, chunk):
        wire = self.wires[place]
        if what == "advance":
            wire.advance(300)
        elif place in self.gone:
            return
        elif what in {"ask", "produce"}:
            if not wire.session.ending:
                self.asked[place] += 1
                ident = self.asked[place]
                asked = list_offsets(ident, "vip" if ident % 3 == 0 else "tests")
                wire.client(f.produce(ident) if what == "produce" else asked, chunk)
        elif what == "reply":
            self.reply(place)
        elif what == "hang up":
            if wire.session.client.muted:
                wire.hang_up()
            else:
                wire.session.client_gone(wire.now_ms)
                wire.settle()
        elif what == "cut":
            self.cut(place)
        if wire.session.ended:
            self.cut(place)
        self.check()

    def reply(self, place):
        wire = self.wires[place]
        sent = f.split(wire.to_broker)
        if len(sent) > self.replied[place]:
            request = sent[self.replied[place]]
            self.replied[place] += 1
            ident = struct.unpack_from(">i", request, 8)[0]
            produce = struct.unpack_from(">h", request, 4)[0] == f.PRODUCE
            wire.broker(f.produce_reply(ident) if produce else f.reply(ident, b"fine"))

    def cut(self, place):
        if place not in self.gone:
            self.gone.add(place)
            self.wires[place].release()
            self.wires[place].advance(0)  # each woken request has its turn

    def check(self):
        policy = self.room.policy
        in_flight = sum(map(self.in_flight, range(WIRES)))
        assert in_flight == policy.in_flight(1) <= self.bound
        assert not policy.waiting(1) or in_flight == self.bound


@given(bound=st.integers(1, 3), steps=STEPS)
def test_the_broker_never_has_more_than_the_bound_and_every_request_is_answered(bound, steps):
    """Requests are counted at the brokers' ends, in any order of events."""
    play = Play(bound)
    for step in steps:
        play.step(*step)
    for _ in range(200):
        for place in set(range(WIRES)) - play.gone:
            play.step("reply", place, 0)
    for place in set(range(WIRES)) - play.gone:
        replies = [f.correlation_id(each) for each in f.split(play.wires[place].to_client)]
        assert replies == list(range(1, play.asked[place] + 1))
    play.room.assert_nothing_left()
