"""A stateful machine over Session: any interleaving of both sides, any chunking, any ending.

What must hold: the broker gets exactly the requests that were let through, in order; the client gets
exactly one reply per request that expects one, in request order; every request that policies were
asked about completes exactly once; and every byte held is given back.
"""

from __future__ import annotations

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from policies.api import FORWARD, Need, Reject, Respond
from proxy.core.errors import CloseReason
from tests.support import frames as f
from tests.support.policies import Recorder
from tests.support.sessions import Wire, make_engine
from wire.errors import ErrorCode

ANSWERED = b"\x00\x2a"
REFUSED = b"\x00\x2c"  # Heartbeat v0 with POLICY_VIOLATION (44)


class SessionMachine(RuleBasedStateMachine):
    """Model: what the client sent, what the broker has seen, what is due to the client."""

    def __init__(self) -> None:
        super().__init__()
        self.decisions: dict[int, str] = {}
        self.policy = Recorder(self._decide, needs=Need.HEADER)
        self.keeper = Recorder(needs=Need.BODY, apis={f.METADATA})
        self.wire = Wire(make_engine([self.policy, self.keeper]))
        self.ids = 0
        self.expected_at_broker = b""
        self.due: list[bytes] = []  # what the client must see, in order
        self.in_flight: deque[tuple[int, str]] = deque()  # seen by the broker, reply due
        self.unsent = b""  # of the client's stream
        self.unreplied = b""  # of the broker's stream
        self.answers: list[bytes | None] = []
        self.questions = 0

    def _decide(self, request):
        # The machine marks each request by its size: even pads go on, others are settled here.
        kind = self.decisions.get(request.exchange_id)
        if kind == "respond":
            return Respond(ANSWERED)
        if kind == "reject":
            return Reject(ErrorCode.POLICY_VIOLATION)
        return FORWARD

    @precondition(lambda self: not self.wire.session.ending)
    @rule(kind=st.sampled_from(["forward", "respond", "reject", "produce", "silent", "metadata"]))
    def client_asks(self, kind):
        self.ids += 1
        asked = {
            "produce": f.produce(self.ids, size_bytes=self.ids * 13 % 300),
            "silent": f.produce(self.ids, acks=0),
            "metadata": f.metadata_request(self.ids),
        }.get(kind, f.heartbeat(self.ids, pad=self.ids % 9))
        self.decisions[self.ids] = kind
        self.unsent += asked
        if kind == "respond":
            self.due.append(f.reply(self.ids, ANSWERED))
        elif kind == "reject":
            self.due.append(f.reply(self.ids, REFUSED))
        else:
            self.expected_at_broker += asked
            if kind != "silent":
                self.in_flight.append((self.ids, kind))
                real = [(1, "kafka-1", 9092)]
                self.due.append(
                    {
                        "produce": f.produce_reply(self.ids),
                        "metadata": f.metadata_reply(self.ids, [(1, "127.0.0.1", 19094)]),
                    }.get(kind, f.heartbeat_reply(self.ids))
                )
                del real

    @precondition(lambda self: self.unsent)
    @rule(size=st.integers(1, 400), chunk=st.integers(1, 120))
    def client_bytes_arrive(self, size, chunk):
        data, self.unsent = self.unsent[:size], self.unsent[size:]
        self.wire.client(data, chunk)

    @rule()
    def broker_replies_to_what_it_has_seen(self):
        seen = self._whole_frames_at_broker()
        while self.in_flight and self.in_flight[0][0] in seen:
            ident, kind = self.in_flight.popleft()
            self.unreplied += {
                "produce": f.produce_reply(ident),
                "metadata": f.metadata_reply(ident, [(1, "kafka-1", 9092)]),
            }.get(kind, f.heartbeat_reply(ident))

    @precondition(lambda self: self.unreplied)
    @rule(size=st.integers(1, 200), chunk=st.integers(1, 60))
    def broker_bytes_arrive(self, size, chunk):
        data, self.unreplied = self.unreplied[:size], self.unreplied[size:]
        self.wire.broker(data, chunk)

    @rule()
    def time_passes(self):
        self.wire.advance(10)

    def _whole_frames_at_broker(self) -> set[int]:
        seen: set[int] = set()
        stream = self.wire.to_broker
        while len(stream) >= 12:
            size = 4 + int.from_bytes(stream[:4], "big")
            if len(stream) < size:
                break
            seen.add(int.from_bytes(stream[8:12], "big"))
            stream = stream[size:]
        return seen

    @invariant()
    def the_broker_sees_only_what_was_let_through(self):
        assert self.expected_at_broker.startswith(self.wire.to_broker)

    @invariant()
    def the_client_sees_its_replies_in_order(self):
        assert b"".join(self.due).startswith(self.wire.to_client)

    @invariant()
    def nothing_was_our_own_fault(self):
        assert self.wire.watcher.internal == []
        assert self.wire.session.reason is None

    def teardown(self) -> None:
        """Either everything is delivered and drained, or one side dies now; then nothing is left."""
        session = self.wire.session
        if self.ids % 3 == 0:
            self.wire.client(self.unsent)
            for _ in range(2):
                self.broker_replies_to_what_it_has_seen()
                self.wire.broker(self.unreplied)
                self.unreplied = b""
            assert self.wire.to_client == b"".join(self.due)
            assert self.wire.to_broker == self.expected_at_broker
            session.drain()
            self.wire.settle()
            assert session.ended
        elif self.ids % 3 == 1:
            session.client_lost(0)
        else:
            session.broker_gone(CloseReason.BROKER_RESET, 0)
        self.wire.settle()
        self.wire.release()
        for policy in (self.policy, self.keeper):
            assert sorted(i for i, _ in policy.completed) == sorted(policy.asked)
        assert self.wire.held_bytes == 0
        assert not session.queue


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
