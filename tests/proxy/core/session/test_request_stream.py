"""The general path of requests: odd heads, bodies that are kept, refusals, and invalid bytes."""

import struct
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.api import Need, Outcome, Reject
from proxy.core.errors import CloseReason
from proxy.core.session.channel import Mute
from proxy.core.session.exchange import Exchange
from proxy.core.session.fast_requests import MAX_KEEP_STEPS
from proxy.core.session.session import Session
from proxy.core.turns import (
    LABOUR_BUFFERED_BYTES,
    LABOUR_STEP_BYTES,
    LABOUR_STREAMED_BYTES,
    MAX_WALK_STEPS,
    TURN_LABOUR_BYTES,
)
from tests.support.core.policies import Recorder, Silent
from tests.support.core.quiet import Quiet
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from wire.apis import OFFERED
from wire.errors import ErrorCode
from wire.primitives import ELEMENT_BUDGET, encode_compact_count
from wire.primitives import encode_compact as compact

CHUNKS = st.integers(1, 200)


@pytest.mark.parametrize(
    ("bad", "hint"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "TLS"),
        (struct.pack(">i", -1) + b"x" * 8, "frame size -1 "),
        (struct.pack(">i", 0) + b"x" * 8, "frame size 0 "),
        (struct.pack(">i", 9) + b"x" * 9, "frame size 9 "),
        (struct.pack(">i", 104857601), "104857601"),
        (struct.pack(">i", 2147483647), "2147483647"),
    ],
)
def test_an_invalid_frame_size_ends_the_connection_before_anything_is_allocated(bad, hint):
    """The first four bytes are enough."""
    wire = Wire().client(bad)
    assert wire.session.reason is CloseReason.CLIENT_PROTOCOL
    assert hint in wire.session.detail
    assert wire.to_broker == b""
    assert wire.held_bytes == 0


@pytest.mark.parametrize("passed", [(), (1,)], ids=["none is let through", "Fetch is let through"])
@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (4, 0), (0, 99), (17, 0), (1, 18)])
def test_an_unknown_api_or_version_ends_the_connection(key, version, passed):
    """Sluice cannot know whether its reply carries an address, also of a known API that is let through."""
    wire = Wire(make_engine(pass_unknown=passed)).client(f.request(key, version, 1, b"\x00" * 8))
    assert wire.session.reason is CloseReason.CLIENT_PROTOCOL
    assert wire.to_broker == b""


def test_a_key_that_is_let_through_on_purpose_is_paired_by_correlation_id_only():
    """pass_unknown_apis: opaque both ways."""
    asked = f.request(999, 3, 5, b"?" * 30)
    wire = Wire(make_engine(pass_unknown=(999,))).client(asked).broker(f.reply(5, b"!" * 30))
    assert wire.to_broker == asked
    assert wire.to_client == f.reply(5, b"!" * 30)


def test_an_unknown_api_that_is_let_through_is_judged_by_the_policies():
    """By its header: a quota counts it, and mutes its client."""
    engine = make_engine([Quiet(needs=Need.BODY)], pass_unknown=(999,))
    wire = Wire(engine).client(f.request(999, 3, 5, b"?" * 30))
    assert wire.session.client.muted == Mute.THROTTLED
    wire.broker(f.reply(5, b"!" * 30))
    assert wire.to_client == f.reply(5, b"!" * 30)


def test_a_newer_api_versions_is_answered_here_in_the_shape_every_client_reads():
    """Error 35, v0 layout, header v0; then the client asks again in a version we know."""
    wire = Wire().client(f.request(f.API_VERSIONS, 32767, 9, b"\x01\x01\x00", tagged=True))
    (answer,) = f.split(wire.to_client)
    assert answer[4:] == struct.pack(">ihihhh", 9, 35, 1, 18, *OFFERED[18])
    assert wire.to_broker == b""
    again = f.request(f.API_VERSIONS, 0, 10)
    assert wire.client(again).to_broker == again


def test_a_head_that_never_ends_is_cut_off():
    """A carried head is bounded."""
    endless = struct.pack(">ihhih", 1 << 20, 0, 9, 1, -1) + b"\x00" + b"\xfe\xff\x03" + b"a" * 65530
    wire = Wire().client(endless + b"b" * 4000, chunk=1000)
    assert wire.session.reason is CloseReason.CLIENT_PROTOCOL
    assert wire.held_bytes == 0


def test_a_rejected_request_is_answered_in_its_own_shape_and_never_reaches_the_broker():
    """DeleteTopics v1 names every topic with the code."""
    refuse = Recorder(lambda _: Reject(ErrorCode.POLICY_VIOLATION), apis={f.DELETE_TOPICS})
    body = struct.pack(">i", 2) + f.string("a") + f.string("b") + struct.pack(">i", 1000)
    wire = Wire(make_engine([refuse])).client(f.request(f.DELETE_TOPICS, 1, 3, body), chunk=7)
    expected = struct.pack(">ii", 0, 2)
    expected += f.string("a") + struct.pack(">h", 44) + f.string("b") + struct.pack(">h", 44)
    assert wire.to_client == f.reply(3, expected)
    assert wire.to_broker == b""
    assert refuse.completed == [(1, Outcome.ANSWERED)]


@given(CHUNKS)
def test_a_produce_head_fills_as_the_body_streams_by(chunk):
    """Need.HEAD: asked at once with the acks, topics known by the end, nothing held back."""
    watcher = Silent(needs=Need.HEAD)
    asked = f.produce(1, topic="orders", size_bytes=900)
    wire = Wire(make_engine([watcher])).client(asked + f.produce(2, acks=0, topic="late"), chunk)
    first, second = watcher.heads
    assert first.topics == [("orders", [0])]
    assert first.timeout_ms == 30_000
    assert second.topics == [("late", [0])]
    assert wire.to_broker == asked + f.produce(2, acks=0, topic="late")


def test_policies_see_the_newest_client_id():
    """The peer is replaced when the client id changes; all else that is known of it stays."""
    watcher = Silent()
    wire = Wire(make_engine([watcher]), node_id=2)
    groups = frozenset({"staff"})
    known = replace(
        wire.session.peer, user="alice", principal_source="sasl", proof="token", groups=groups
    )
    others = [each for each in fields(known) if each.name != "client_id"]
    assert all(getattr(known, each.name) != each.default for each in others)
    wire.session.become(known)
    wire.client(
        f.heartbeat(1, client_id="one") + f.heartbeat(2, client_id="two") + f.heartbeat(3, None)
    )
    assert watcher.peers == [replace(known, client_id=each) for each in ("one", "two", "")]
    assert watcher.asked == [1, 2, 3]


def test_odd_frames_are_taken_a_bounded_number_at_a_time():
    """One client does not delay the others: the rest waits for the next turn, counted, in order."""
    stream = b"".join(f.heartbeat(n, client_id=f"client-{n}") for n in range(2000))
    wire = Wire().client(stream)
    labour_bytes = len(stream) + 2000 * LABOUR_STREAMED_BYTES
    assert wire.turns == pytest.approx(labour_bytes / TURN_LABOUR_BYTES, rel=0.05)
    assert wire.to_broker == stream
    wire.release()
    assert wire.held_bytes == 0


def test_refused_frames_cost_four_times_as_much_of_a_turn():
    """Each is kept, read and answered; and it costs as much again however small it is."""
    refuse = Recorder(lambda _: Reject(ErrorCode.POLICY_VIOLATION), apis={f.HEARTBEAT})
    stream = b"".join(f.heartbeat(n) for n in range(2000))
    wire = Wire(make_engine([refuse])).client(stream)
    labour_bytes = 4 * len(stream) + 2000 * LABOUR_BUFFERED_BYTES
    assert wire.turns == pytest.approx(labour_bytes / TURN_LABOUR_BYTES, rel=0.1)
    assert len(f.split(wire.to_client)) == 2000
    wire.release()
    assert wire.held_bytes == 0


def tagged_produce(n: int, partitions: int, tags: int = 60, acks: int = -1) -> bytes:
    """A Produce v9 whose partitions have no records, and so many tagged fields each."""
    section = bytes([tags]) + b"".join(bytes([tag, 0]) for tag in range(tags))
    topic = compact(b"orders") + encode_compact_count(partitions)
    topic += b"".join(struct.pack(">iB", each, 1) + section for each in range(partitions))
    body = b"\0" + struct.pack(">hi", acks, 30_000) + b"\x02" + topic + b"\0\0"
    return f.request(f.PRODUCE, 9, n, body, tagged=True)


@pytest.mark.parametrize("chunk", [4_001, 1 << 18])
@pytest.mark.parametrize("policies", [[], [Silent(needs=Need.HEAD)]], ids=["kept", "head"])
def test_a_body_that_is_walked_is_labour_of_the_turn(policies, chunk):
    """A Produce of many tagged fields is walked in turns, and what follows it keeps its order."""
    stream = tagged_produce(1, 250) + f.heartbeat(2) + tagged_produce(3, 250) + f.heartbeat(4)
    wire = Wire(make_engine(policies)).client(stream, chunk)
    steps = 2 * 250 * (1 + 1 + 60)
    if chunk > TURN_LABOUR_BYTES:  # a smaller read is a turn of its own
        assert wire.turns == pytest.approx(steps * LABOUR_STEP_BYTES / TURN_LABOUR_BYTES, abs=2)
    assert wire.to_broker == stream
    assert [each.correlation_id for each in wire.session.queue] == [1, 2, 3, 4]
    wire.release()
    assert wire.held_bytes == 0


def test_a_body_of_more_elements_than_the_budget_passes_unread():
    """Where no policy needs its head: the walk ends, and the bytes are forwarded."""
    stream = tagged_produce(1, 8_000) + f.heartbeat(2)
    wire = Wire().client(stream)
    walked_bytes = (
        ELEMENT_BUDGET - 8_000
    ) * LABOUR_STEP_BYTES  # the partitions are paid for at once
    assert wire.turns == pytest.approx(walked_bytes / TURN_LABOUR_BYTES, abs=2)
    assert wire.to_broker == stream
    assert not wire.session.ended


def test_many_whole_requests_of_many_elements_are_labour_too():
    """The fast loop visits a bounded number of elements in one read."""
    stream = b"".join(tagged_produce(n, 15) for n in range(100))
    wire = Wire().client(stream)
    steps = 100 * 15 * (1 + 1 + 60)
    assert wire.turns >= steps // (MAX_KEEP_STEPS + 2 * MAX_WALK_STEPS) - 1
    assert wire.to_broker == stream
    assert len(wire.session.queue) == 100
    wire.release()
    assert wire.held_bytes == 0


@pytest.mark.parametrize("where", ["inside a frame", "between frames"])
def test_a_session_that_ends_while_it_waits_for_its_turn_gives_everything_back(where):
    """The bytes that were read and not yet handled are dropped."""
    wire = Wire()
    odd = b"".join(f.heartbeat(n, client_id=f"client-{n}") for n in range(2000))
    buf = bytearray(tagged_produce(1, 300) if where == "inside a frame" else odd)
    assert wire.session.from_client(buf, 0, len(buf), 0) < 0
    assert wire.session.paced
    assert bool(wire.session.request_left) == (where == "inside a frame")
    wire.settle()
    assert 0 < len(wire.to_broker) < len(buf)
    wire.session.client_lost(0)
    wire.settle()
    wire.release()
    assert wire.held_bytes == 0


def test_a_large_request_streams_through_without_being_held():
    """A body never waits for its end."""
    whole = f.produce(1, size_bytes=600_000)
    wire = Wire().client(whole[:100_000])
    assert wire.to_broker == whole[:100_000]
    assert wire.held_bytes == 0
    wire.client(whole[100_000:])
    assert wire.to_broker == whole


def test_a_field_that_was_never_set_raises_and_does_not_end_the_process():
    """In both builds: of a session, and of an object that the fast loop of replies reads."""
    with pytest.raises(AttributeError):
        Session.__new__(Session).from_client(bytearray(12), 0, 12, 0)
    wire = Wire()
    wire.session.queue.entries.append(Exchange.__new__(Exchange))
    with pytest.raises(AttributeError):
        wire.broker(f.heartbeat_reply(0))
