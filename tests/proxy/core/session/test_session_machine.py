"""A stateful machine over Session: any interleaving of both sides and of time, any chunking, any ending.

These must hold: the broker gets exactly the requests that were let through, in order; the client gets
exactly one reply per request that expects one, in request order; every request that policies were
asked about completes exactly once; every byte held is given back; and every mute ends.
Sluice answers for a broker that misses a deadline, and swallows its late reply.
"""

import struct
from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from policies.api import FORWARD, Hold, Need, Outcome, Reject, Respond, Throttle
from proxy.core.errors import CloseReason
from proxy.core.session.broker_waits import LOOK_RARELY_MS
from proxy.core.session.exchange import Exchange, SwallowedExchange
from tests.support.core.policies import Recorder
from tests.support.core.session_state import is_patient, is_throttled, is_unusual, timer_of
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.throttled import KINDS, Kind, fetch, fetch_reply
from tests.support.messages.waiting import FETCH_MS, WAIT_MS, empty
from wire.errors import ErrorCode

ANSWERED = b"\x00\x00\x00\x00\x00\x2a"  # Heartbeat v1: throttle_time_ms 0 and an error code
REFUSED = b"\x00\x00\x00\x00\x00\x2c"
ENDS = {"respond": Respond(ANSWERED), "reject": Reject(ErrorCode.POLICY_VIOLATION)}
FETCH = Kind(
    f.FETCH, fetch, lambda n, ms: fetch_reply(n, ms, 20), lambda n, ms: fetch_reply(n, ms, 20)
)
ASKED = {
    "produce": KINDS["produce-v3"],
    "bulk": KINDS["produce-v3"],
    "metadata": KINDS["metadata-v3"],
    "fetch": FETCH,
}
TRACKED = {"produce", "bulk", "fetch"}
BEAT = KINDS["heartbeat-v1"]
LONGEST_MS = 300
CHUNKS = st.integers(1, 120) | st.just(5_000)


def timed_out(number: int) -> bytes:
    """Return the Produce v3 reply that Sluice makes at the deadline."""
    reply = f.produce_reply(number)
    return reply[:-22] + struct.pack(">hqqi", 7, -1, -1, 0)


def masked(frame: bytes) -> bytes:
    """Return a reply with throttle_time_ms 0: the last field of a Produce's, the first of the others'."""
    if len(frame) > 40 and b"cluster" not in frame:
        return frame[:-4] + bytes(4)
    return frame[:8] + bytes(4) + frame[12:]


class Whim(Recorder):
    """Throttles and holds each request by its entry in `moods`, in any combination."""

    def __init__(self, **options):
        super().__init__(self._judge, hear=self._listen, **options)
        self.ends: dict[int, str] = {}
        self.moods: dict[int, tuple[int, int, int]] = {}
        """How often it is held, ms on the request, ms on the reply."""
        self.times: dict[int, int] = {}

    def _judge(self, request):
        number = request.exchange_id
        end = ENDS.get(self.ends[number], FORWARD)
        holds, ms, _ = self.moods[number]
        times = self.times[number] = self.times.get(number, 0) + 1
        if times <= holds:
            then = end if isinstance(end, Reject) else FORWARD
            return Hold(50 * times, number % 3, then)
        return Throttle(ms, end) if ms else end

    def _listen(self, request):
        ms = self.moods[request.exchange_id][2]
        return Throttle(ms) if ms else FORWARD


class SessionMachine(RuleBasedStateMachine):
    """Model: what the client sent, what the broker has seen, what is due to the client."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = Whim()
        self.keeper = Recorder(needs=Need.BODY, apis={f.METADATA})
        self.wire = Wire(make_engine([self.policy, self.keeper]))
        self.ids = 0
        self.expected_at_broker = b""
        # what the client must see, in order, without throttles: the broker's reply, or ours
        self.due: list[tuple[bytes, bytes]] = []
        self.in_flight: deque[tuple[int, str]] = deque()  # let through, reply due
        self.unsent = b""  # of the client's stream
        self.unreplied = b""  # of the broker's stream

    @rule(
        kind=st.sampled_from(
            [
                "forward",
                "respond",
                "reject",
                "produce",
                "silent",
                "metadata",
                "bulk",
                "fetch",
                "fetch",
            ]
        ),
        holds=st.sampled_from([0, 0, 0, 1, 2]),
        request_ms=st.sampled_from([0, 0, 40, LONGEST_MS]),
        reply_ms=st.sampled_from([0, 0, 40, LONGEST_MS]),
    )
    def client_asks(self, kind, holds, request_ms, reply_ms):
        self.ids += 1
        number = self.ids
        if kind == "respond":
            holds = 0  # a deadline cannot respond
        self.policy.ends[number] = kind
        self.policy.moods[number] = (holds, request_ms, reply_ms)
        if kind == "silent":
            asked = f.produce(number, acks=0)
        elif kind == "produce":
            asked = f.produce(number, size_bytes=number * 13 % 300)
        elif kind == "bulk":
            asked = f.produce(number, size_bytes=1_000 + number * 131 % 3_000)
        else:
            asked = ASKED.get(kind, BEAT).ask(number)
        self.unsent += asked
        if kind == "respond":
            self.due.append((f.reply(number, ANSWERED),) * 2)
        elif kind == "reject":
            self.due.append((f.reply(number, REFUSED),) * 2)
        else:
            self.expected_at_broker += asked
            if kind != "silent":
                self.in_flight.append((number, kind))
                replied = ASKED.get(kind, BEAT).seen(number, 0)
                made = timed_out(number) if kind in {"produce", "bulk"} else replied
                made = masked(empty(number)) if kind == "fetch" else made
                self.due.append((replied, made))

    @precondition(lambda self: self.unsent)
    @rule(size=st.integers(1, 400) | st.just(10_000), chunk=CHUNKS)
    def client_bytes_arrive(self, size, chunk):
        data, self.unsent = self.unsent[:size], self.unsent[size:]
        self.wire.client(data, chunk)

    @rule(
        kinds=st.lists(st.sampled_from(["fetch", "bulk", "produce", "forward"]), max_size=4),
        chunk=CHUNKS,
        elapsed_ms=st.sampled_from([FETCH_MS, FETCH_MS, WAIT_MS]),
    )
    def the_broker_hangs(self, kinds, chunk, elapsed_ms):
        for kind in kinds:
            self.client_asks(kind, 0, 0, 0)
        data, self.unsent = self.unsent, b""
        self.wire.client(data, chunk)
        self.wire.advance(elapsed_ms)

    @rule(said_ms=st.sampled_from([0, 0, 60]))
    def broker_replies_to_what_it_has_seen(self, said_ms):
        seen = {f.correlation_id(b"    " + each[4:]) for each in self._at_broker()}
        while self.in_flight and self.in_flight[0][0] in seen:
            number, kind = self.in_flight.popleft()
            self.unreplied += ASKED.get(kind, BEAT).reply(number, said_ms)

    @precondition(lambda self: self.unreplied)
    @rule(size=st.integers(1, 200), chunk=st.integers(1, 60))
    def broker_bytes_arrive(self, size, chunk):
        data, self.unreplied = self.unreplied[:size], self.unreplied[size:]
        self.wire.broker(data, chunk)

    @rule(elapsed_ms=st.sampled_from([1, 10, 45, 200, 200, FETCH_MS, WAIT_MS]))
    def time_passes(self, elapsed_ms):
        self.wire.advance(elapsed_ms)

    @rule(key=st.integers(0, 2))
    def a_policy_wakes_a_key(self, key):
        self.wire.wake(key)

    @precondition(lambda self: self.ids % 5 == 0)
    @rule()
    def wishes_are_looked_at_again(self):
        self.wire.engine.reconsider()

    def _at_broker(self) -> list[bytes]:
        # A correlation id stands four bytes further back in a request than in a reply.
        return [each[:4] + each[8:] for each in f.whole_frames(self.wire.to_broker)]

    @invariant()
    def the_broker_sees_only_what_was_let_through(self):
        assert self.expected_at_broker.startswith(self.wire.to_broker)

    @invariant()
    def the_client_sees_its_replies_in_order(self):
        self.check_replies(f.whole_frames(self.wire.to_client))

    def check_replies(self, seen: list[bytes]) -> None:
        """Assert that the replies are due in this order, and that as many are made by Sluice as were counted."""
        assert len(seen) <= len(self.due)
        made = 0
        for each, (replied, ours) in zip(seen, self.due, strict=False):
            assert masked(each) in (replied, ours)
            made += masked(each) != replied
        expired = self.wire.engine.expired
        drained = [
            number for number, outcome in self.policy.completed if outcome is Outcome.ANSWERED
        ]
        drained = [number for number in drained if self.policy.ends[number] == "fetch"]
        assert made == expired.produce + expired.fetch + len(drained)
        told = [number for number, outcome in self.policy.completed if outcome is Outcome.EXPIRED]
        assert len(told) == expired.produce + expired.fetch
        assert {self.policy.ends[number] for number in told} <= TRACKED

    @invariant()
    def a_tracked_request_has_a_timer(self):
        session, now_ms = self.wire.session, self.wire.now_ms
        waiting = [each for each in session.queue if not isinstance(each, SwallowedExchange)]
        if not waiting or not isinstance(waiting[0], Exchange) or not waiting[0].plan.wait_ms:
            return
        if session.request_left and waiting[0] is session.half_sent:
            return
        due_ms = session.waits.due_ms(waiting[0])
        assert timer_of(session) is not None
        assert session.waits.at_ms <= max(due_ms, now_ms) + LOOK_RARELY_MS

    @invariant()
    def nothing_was_our_own_fault(self):
        assert self.wire.watcher.internal == []
        assert self.wire.session.reason is None

    @invariant()
    def a_muted_client_has_a_timer(self):
        session = self.wire.session
        if session.client.muted:
            assert self.wire.engine.timers.next_ms() is not None
            assert is_throttled(session) or session.held is not None

    def _deliver(self) -> None:
        """Pass on everything that the broker can reply now."""
        for _ in range(2 * self.ids + 2):
            self.broker_replies_to_what_it_has_seen(0)
            data, self.unreplied = self.unreplied, b""
            self.wire.broker(data)

    def teardown(self) -> None:
        """Everything is delivered, or the proxy drains, or one side dies now; then nothing is left."""
        session = self.wire.session
        if self.ids % 4 == 0:
            self.wire.client(self.unsent)
            for _ in range(4 * self.ids + 4):
                self.wire.advance(LONGEST_MS)
                self._deliver()
            self.check_replies(f.split(self.wire.to_client))
            assert len(f.split(self.wire.to_client)) == len(self.due)
            assert self.wire.to_broker == self.expected_at_broker
            assert not session.client.muted
            assert not is_unusual(session)
            assert session.queue.unusual == is_patient(session)
            self.wire.drain()
            assert session.ended
        elif self.ids % 4 == 1:
            self.wire.drain()
            if session.request_left:  # it is being sent; its other half comes
                self.wire.client(self.unsent)
            self._deliver()
            if not session.ended:
                assert session.request_left  # it was cut, and never comes
                session.client_gone(self.wire.now_ms)
                self.wire.settle()
                self._deliver()
            assert session.ended
            self.check_replies(f.split(self.wire.to_client))
        elif self.ids % 4 == 2:
            session.client_lost(self.wire.now_ms)
        else:
            session.broker_gone(CloseReason.BROKER_RESET, self.wire.now_ms)
        self.wire.settle()
        self.wire.release()
        assert set(self.policy.asked) == {number for number, _ in self.policy.completed}
        assert len(self.policy.completed) == len(set(self.policy.completed))
        assert len({number for number, _ in self.policy.completed}) == len(self.policy.completed)
        assert sorted(number for number, _ in self.keeper.completed) == sorted(self.keeper.asked)
        for number, outcome in self.policy.completed:
            if outcome is Outcome.ANSWERED:
                assert self.policy.ends[number] in {*ENDS, "fetch"}
        assert self.wire.held_bytes == 0
        assert not session.queue
        assert self.wire.engine.timers.next_ms() is None
        assert [self.wire.engine.wake(key) for key in range(3)] == [0, 0, 0]


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(stateful_step_count=50)
