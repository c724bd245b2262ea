"""The end of a read does not matter: a fault discards no earlier frame, under any chunking.

`test_differential.py` has the faults of policies, and those of brokers, in any order of events.
"""

import struct
from itertools import product

from policies.api import FORWARD, Need, Outcome, Respond
from proxy.core.errors import CloseReason
from proxy.core.retirements import LAST_REPLIES_MS
from proxy.core.session.questions import inquire
from proxy.core.session.request_stream import MAX_HEAD_BYTES
from tests.support.core.policies import Recorder, Silent
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from tests.support.messages.waiting import fetch_waiting

CHUNKS = (1, 7, 64, 1 << 18)
"""Byte by byte, pieces of a header, pieces of several frames, and all in one read."""
FAULTS = {
    "a size that cannot be": struct.pack(">i", 3) + b"abcdefgh",
    "a negative size": struct.pack(">i", -7) + b"abcdefgh",
    "HTTP": b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    "an API that is not offered": f.request(999, 0, 99, b"abc"),
    "a version that is not offered": f.request(f.HEARTBEAT, 77, 99, b"abc"),
    "a client id longer than its frame": f.frame(struct.pack(">hhih", 12, 0, 99, 300) + b"abc"),
    "a head that ends in its fields": f.frame(struct.pack(">hhih", 1, 4, 99, -1) + b"abc"),
}


def beats(count: int) -> bytes:
    return b"".join(f.heartbeat(n) for n in range(1, count + 1))


def beat_replies(count: int) -> bytes:
    return b"".join(f.heartbeat_reply(n) for n in range(1, count + 1))


# -- the broker's side ----------------------------------------------------------------------------


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


@for_each([[], [Recorder]])
def test_frames_delivered_before_a_fault_are_counted_under_any_chunking(policies):
    """Requests and bytes of both directions are counted, and so are the meters of answered requests."""
    counts = set()
    for chunk in (1, 9, 100, 1 << 18):
        wire = Wire(make_engine([each() for each in policies]))
        wire.client(beats(7) + FAULTS["HTTP"], chunk)
        wire.broker(beat_replies(5) + b"HTTP/1.1 400 Bad Request\r\n\r\n", chunk)
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


@for_each(product(CHUNKS, Need))
def test_requests_before_one_for_which_a_policy_raises_are_forwarded_and_answered(chunk, needs):
    """The request at fault is not forwarded, and the policy is told of its end once."""

    def judge(request):
        if request.exchange_id == 4:
            raise ZeroDivisionError
        return FORWARD

    policy = Recorder(judge, needs=needs)
    wire = Wire(make_engine([policy])).client(beats(6), chunk)
    assert wire.to_broker == beats(3)
    assert not wire.session.ended
    wire.broker(beat_replies(3), chunk)
    assert wire.to_client == beat_replies(3)
    assert wire.session.reason is CloseReason.POLICY_FAULT
    wire.release()
    assert policy.completed[0] == (4, Outcome.DISCONNECTED)
    assert policy.completed[1:] == [(n, Outcome.REPLIED) for n in (1, 2, 3)]
    assert wire.session.usage.requests == 4
    assert wire.held_bytes == 0


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
    inquire(wire.session, f.heartbeat(77), 77, answers.append)
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
        wire.client(b"".join(fetch_waiting(n, max_wait_ms=500_000) for n in range(4)), chunk)
        found.add(wire.engine.expired.clamped)
    assert found == {1}
