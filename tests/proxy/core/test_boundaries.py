"""The end of a read does not matter: a fault discards no earlier frame, under any chunking."""

import struct
from itertools import product

from policies.api import FORWARD, Need, Outcome, Reject, Respond, Throttle
from proxy.core.errors import CloseReason
from proxy.core.retirements import LAST_REPLIES_MS
from proxy.core.session.request_stream import MAX_HEAD_BYTES
from tests.support.core.policies import Recorder, Silent
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from tests.support.messages.throttled import KINDS
from wire.errors import ErrorCode

CHUNKS = (1, 7, 64, 1 << 18)
"""Byte by byte, pieces of a header, pieces of several frames, and all in one read."""
NO_POLICY_AND_A_HOOK = ((), (Recorder,))
FAULTS = {
    "a size that cannot be": struct.pack(">i", 3) + b"abcdefgh",
    "a negative size": struct.pack(">i", -7) + b"abcdefgh",
    "HTTP": b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    "an API that is not offered": f.request(999, 0, 99, b"abc"),
    "a version that is not offered": f.request(f.HEARTBEAT, 77, 99, b"abc"),
    "a client id longer than its frame": f.frame(struct.pack(">hhih", 12, 0, 99, 300) + b"abc"),
    "a head that ends in its fields": f.frame(struct.pack(">hhih", 1, 4, 99, -1) + b"abc"),
}
REPLY_FAULTS = {
    "another correlation id": f.heartbeat_reply(4711),
    "a size that cannot be": struct.pack(">ii", 2, 11),
    "HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


class Faulty(Recorder):
    """Raises for the request with this number, in `on_request` or in `on_response`."""

    def __init__(self, number: int, hook: str, **options):
        super().__init__(self._judge, hear=self._listen, **options)
        self.number = number
        self.hook = hook

    def _judge(self, request):
        if self.hook == "on_request" and request.exchange_id == self.number:
            raise ZeroDivisionError
        return FORWARD

    def _listen(self, request):
        if self.hook == "on_response" and request.exchange_id == self.number:
            raise ZeroDivisionError
        return FORWARD


def beats(count: int) -> bytes:
    return b"".join(f.heartbeat(n) for n in range(1, count + 1))


def beat_replies(count: int) -> bytes:
    return b"".join(f.heartbeat_reply(n) for n in range(1, count + 1))


# -- the broker's side ----------------------------------------------------------------------------


@for_each(product(CHUNKS, REPLY_FAULTS, NO_POLICY_AND_A_HOOK))
def test_ten_good_replies_are_delivered_before_a_bad_eleventh_ends_the_session(
    chunk, fault, policies
):
    """This holds for one read and for many."""
    wire = Wire(make_engine([each() for each in policies])).client(beats(12))
    wire.broker(beat_replies(10) + REPLY_FAULTS[fault] + f.heartbeat_reply(12), chunk)
    assert wire.to_client == beat_replies(10)
    assert wire.session.ended
    assert wire.session.reason is CloseReason.BROKER_PROTOCOL
    wire.release()
    assert wire.held_bytes == 0


@for_each(product(CHUNKS, [1, 4, 11]))
def test_the_replies_before_one_that_cannot_be_rewritten_are_delivered(chunk, place):
    """A reply with addresses never passes unread, and earlier replies are not lost."""
    wire = Wire()
    asked = [f.heartbeat(n) for n in range(12)]
    replies = [f.heartbeat_reply(n) for n in range(12)]
    asked[place] = f.metadata_request(place)
    replies[place] = f.reply(place, struct.pack(">i", 5) + b"\x00\x00\x00\x01\x00\x07kafka")
    wire.client(b"".join(asked)).broker(b"".join(replies), chunk)
    assert wire.to_client == b"".join(replies[:place])
    assert wire.session.ended
    assert wire.session.reason is CloseReason.BROKER_PROTOCOL


@for_each(CHUNKS)
def test_the_replies_before_one_for_which_a_policy_raises_are_delivered(chunk):
    """That reply and later ones are not, because replies leave in order."""
    policy = Faulty(4, "on_response")
    wire = Wire(make_engine([policy])).client(beats(6)).broker(beat_replies(6), chunk)
    assert wire.to_client == beat_replies(3)
    assert wire.session.ended
    assert wire.session.reason is CloseReason.POLICY_FAULT
    outcomes = [(n, Outcome.REPLIED) for n in (1, 2, 3)]
    assert policy.completed == outcomes + [(n, Outcome.DISCONNECTED) for n in (4, 5, 6)]


@for_each(CHUNKS)
def test_local_replies_before_a_bad_reply_are_delivered(chunk):
    """A local reply after the bad reply is not: its turn never comes."""
    policy = Silent(lambda r: Respond(b"\x00\x07") if r.exchange_id in {2, 5} else FORWARD)
    wire = Wire(make_engine([policy])).client(beats(5))
    wire.broker(f.heartbeat_reply(1) + f.heartbeat_reply(3) + f.heartbeat_reply(5), chunk)
    made = f.reply(2, b"\x00\x07")
    assert wire.to_client == f.heartbeat_reply(1) + made + f.heartbeat_reply(3)
    assert wire.session.ended
    wire.release()
    assert sorted(policy.completed) == [
        (1, Outcome.REPLIED),
        (2, Outcome.ANSWERED),
        (3, Outcome.REPLIED),
        (4, Outcome.DISCONNECTED),
        (5, Outcome.DISCONNECTED),
    ]
    assert wire.held_bytes == 0


@for_each([[], [Recorder]])
def test_frames_delivered_before_a_fault_are_counted_under_any_chunking(policies):
    """Requests and bytes of both directions are counted, and so are the meters of answered requests."""
    counts = set()
    for chunk in (1, 9, 100, 1 << 18):
        wire = Wire(make_engine([each() for each in policies]))
        wire.client(beats(7) + FAULTS["HTTP"], chunk)
        wire.broker(beat_replies(5) + REPLY_FAULTS["HTTP"], chunk)
        usage = wire.session.usage
        meters = wire.engine.meters.by_api()
        counts.add(
            (
                usage.requests,
                usage.request_bytes,
                usage.response_bytes,
                tuple((meter.name, meter.replied, *meter.outcomes.values()) for meter in meters),
                wire.session.reason,
            )
        )
    assert len(counts) == 1
    (only,) = counts
    assert only[:3] == (7, len(beats(7)), len(beat_replies(5)))


# -- the client's side ------------------------------------------------------------------------------


@for_each(product(CHUNKS, FAULTS, NO_POLICY_AND_A_HOOK))
def test_five_produces_without_acks_reach_the_broker_before_a_bad_frame(chunk, fault, policies):
    """Their sender gets no reply that would tell it what was lost."""
    produces = b"".join(f.produce(n, acks=0) for n in range(5))
    engine = make_engine([each() for each in policies])
    wire = Wire(engine).client(produces + FAULTS[fault] + f.heartbeat(6), chunk)
    assert wire.to_broker == produces
    assert wire.session.ended
    assert wire.session.reason is CloseReason.CLIENT_PROTOCOL
    wire.release()
    assert wire.held_bytes == 0


@for_each(product(CHUNKS, Need))
def test_requests_before_one_for_which_a_policy_raises_are_forwarded_and_answered(chunk, needs):
    """The request at fault is not forwarded, and the policy is told of its end once."""
    policy = Faulty(4, "on_request", needs=needs)
    wire = Wire(make_engine([policy])).client(beats(6), chunk)
    assert wire.to_broker == beats(3)
    assert not wire.session.ended
    wire.broker(beat_replies(3), chunk)
    assert wire.to_client == beat_replies(3)
    assert wire.session.ended
    assert wire.session.reason is CloseReason.POLICY_FAULT
    wire.release()
    assert policy.completed == [
        (4, Outcome.DISCONNECTED),
        *((n, Outcome.REPLIED) for n in (1, 2, 3)),
    ]
    assert wire.held_bytes == 0


@for_each(product(CHUNKS, FAULTS))
def test_a_client_at_fault_gets_the_replies_that_are_due_and_then_its_connection_ends(chunk, fault):
    """Local replies are delivered too; no request after the fault is accepted."""
    policy = Silent(lambda r: Respond(b"\x00\x07") if r.exchange_id == 2 else FORWARD)
    wire = Wire(make_engine([policy])).client(beats(3) + FAULTS[fault] + beats(9), chunk)
    assert wire.to_broker == f.heartbeat(1) + f.heartbeat(3)
    assert not wire.session.ended
    assert wire.session.reason is CloseReason.CLIENT_PROTOCOL
    wire.client(beats(9), chunk)
    wire.broker(f.heartbeat_reply(1), chunk)
    assert not wire.session.ended
    wire.broker(f.heartbeat_reply(3), chunk)
    assert wire.to_client == f.heartbeat_reply(1) + f.reply(2, b"\x00\x07") + f.heartbeat_reply(3)
    assert wire.to_broker == f.heartbeat(1) + f.heartbeat(3)
    assert wire.session.ended
    wire.release()
    assert wire.watcher.closed[0][0] is CloseReason.CLIENT_PROTOCOL
    assert wire.engine.timers.next_ms() is None
    assert wire.held_bytes == 0
    assert sorted(policy.asked) == sorted(number for number, _ in policy.completed)


def test_a_session_at_fault_waits_a_limited_time_for_the_replies_that_are_due():
    """A silent broker and a hostile client could keep it open otherwise."""
    wire = Wire().client(beats(1) + FAULTS["HTTP"])
    wire.advance(LAST_REPLIES_MS - 1)
    assert not wire.session.ended
    wire.advance(1)
    assert wire.session.ended
    assert wire.session.reason is CloseReason.CLIENT_PROTOCOL
    wire.release()
    assert wire.engine.timers.next_ms() is None


def test_the_reason_of_a_fault_stays_when_the_broker_disconnects_later():
    """The first close reason is reported."""
    wire = Wire().client(beats(2) + FAULTS["HTTP"])
    wire.session.broker_gone(CloseReason.BROKER_CLOSED, 0)
    assert wire.session.ended
    assert wire.session.reason is CloseReason.CLIENT_PROTOCOL


@for_each(CHUNKS)
def test_after_an_incomplete_request_nothing_is_sent_to_the_broker(chunk):
    """Its first part was sent in earlier reads; earlier requests are answered, and the connection ends."""
    policy = Silent(needs=Need.HEAD)
    asked = f.produce(2, size_bytes=400)
    at = asked.index(f.string("t"))
    broken = asked[: at + 3] + struct.pack(">i", -9) + asked[at + 7 :]
    wire = Wire(make_engine([policy])).client(f.heartbeat(1) + broken + f.heartbeat(3), chunk)
    assert (f.heartbeat(1) + broken).startswith(wire.to_broker)
    assert len(f.heartbeat(1)) <= len(wire.to_broker) < len(f.heartbeat(1) + broken)
    if chunk > 500:
        assert wire.to_broker == f.heartbeat(1)
    sent = wire.to_broker
    answers: list[bytes | None] = []
    wire.session.inquire(f.heartbeat(77), 77, answers.append)
    assert answers == [None]
    wire.broker(f.heartbeat_reply(1))
    wire.settle()
    assert wire.to_broker == sent
    assert wire.to_client == f.heartbeat_reply(1)
    assert wire.session.ended
    assert wire.session.reason is CloseReason.CLIENT_PROTOCOL
    assert policy.completed == [(2, Outcome.DISCONNECTED), (1, Outcome.REPLIED)]


@for_each(CHUNKS)
def test_a_truncated_produce_is_not_forwarded_whole(chunk):
    """A policy wants its head; the broker must not get a whole frame that Sluice could not parse."""
    policy = Silent(needs=Need.HEAD)
    asked = f.produce(2)
    broken = f.frame(asked[4:-20])
    wire = Wire(make_engine([policy])).client(f.heartbeat(1) + broken + f.heartbeat(3), chunk)
    assert len(wire.to_broker) < len(f.heartbeat(1) + broken)
    wire.broker(f.heartbeat_reply(1))
    assert wire.to_client == f.heartbeat_reply(1)
    assert wire.session.ended
    assert policy.completed == [(2, Outcome.DISCONNECTED), (1, Outcome.REPLIED)]


def uvarint(value: int) -> bytes:
    """Return the varint in three bytes."""
    return bytes([value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14])


@for_each(product(CHUNKS, [-1, 0, 1]))
def test_the_limit_on_a_head_does_not_depend_on_the_chunking(chunk, extra):
    """A head may arrive in one read or in many."""
    chunk = max(chunk, 40) * 10
    tagged_bytes = 40_000
    tags = b"\x01\x00" + uvarint(tagged_bytes) + b"x" * tagged_bytes
    fixed = len(f.request(f.PRODUCE, 9, 1, tagged=True, tags=tags)) + 3 + 2
    length = MAX_HEAD_BYTES - fixed + extra
    body = uvarint(length + 1) + b"x" * length + struct.pack(">hi", 1, 30_000) + b"\x01\x00"
    asked = f.request(f.PRODUCE, 9, 1, body, tagged=True, tags=tags)
    wire = Wire().client(asked, chunk)
    if extra > 0:
        assert wire.to_broker == b""
        assert wire.session.reason is CloseReason.CLIENT_PROTOCOL
    else:
        assert wire.to_broker == asked


def test_clamped_timeouts_are_counted_once_for_each_kind_of_request():
    """The count does not depend on how often a head was read."""
    found = set()
    for chunk in (1, 10, 1 << 18):
        wire = Wire()
        wire.client(b"".join(long_poll(n) for n in range(4)), chunk)
        found.add(wire.engine.expired.clamped)
    assert found == {1}


def long_poll(number: int) -> bytes:
    body = struct.pack(">iiiib", -1, 500_000, 1, 1 << 20, 0) + struct.pack(">i", 0)
    return f.request(f.FETCH, 4, number, body)


# -- whose fault it is ------------------------------------------------------------------------------


@for_each(
    product(
        CHUNKS,
        Need,
        [
            Respond(bytes(6)),
            Reject(ErrorCode.POLICY_VIOLATION),
            Throttle(0, Respond(bytes(6))),
            Throttle(0),
            FORWARD,
        ],
    )
)
def test_garbage_after_a_judged_request_is_the_clients_fault(chunk, needs, verdict):
    """The policy has given its verdict and is not blamed; its request ends once."""
    kind = KINDS["heartbeat-v1"]
    policy = Recorder(lambda _: verdict, needs=needs)
    wire = Wire(make_engine([policy]))
    wire.client(kind.ask(1) + kind.ask(2) + FAULTS["HTTP"], chunk)
    if wire.to_broker:
        wire.broker(kind.reply(1, 0) + kind.reply(2, 0), chunk)
    assert wire.session.ended
    assert wire.session.reason is CloseReason.CLIENT_PROTOCOL
    assert wire.watcher.policy_errors == []
    assert wire.watcher.internal == []
    assert [f.correlation_id(each) for each in f.split(wire.to_client)] == [1, 2]
    assert [number for number, _ in policy.completed] == [1, 2]
