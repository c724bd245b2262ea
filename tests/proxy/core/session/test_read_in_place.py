"""Small requests that policies see whole are judged in the read: no copy, no memory, and the same results.

`tests/proxy/core/test_differential.py` compares all verdicts with a plain model, under any chunking.
"""

import pytest

from policies.api import EXEMPT, FORWARD, Forward, Hold, Need, Outcome, Patch, Reject, Throttle
from policies.denial import Deny
from proxy.core.errors import CloseReason
from proxy.core.session.channel import ATTENTION, Mute
from proxy.core.session.read_in_place import MAX_FRAME_BYTES, MAX_STEP_BYTES
from proxy.core.stats.capture import Capture
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.named_topics import Watcher, asked, fetch
from wire import codec
from wire.apis import ApiKey
from wire.errors import ErrorCode

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def primed(policy, frame=None, **options):
    """A session that has handled a request with the head of `frame` (a Produce of "orders") before."""
    wire = Wire(make_engine([policy], **options))
    frame = frame or f.produce(1, topic="orders")
    number = int.from_bytes(frame[8:12], "big")
    wire.client(frame).broker(f.reply(number, bytes(30)))
    wire.to_broker = wire.to_client = b""
    return wire


def stop_of(wire, frame):
    """Return what the session says of one read with this frame, after other bytes."""
    return wire.session.from_client(bytearray(b"junk" + frame), 4, 4 + len(frame), wire.now_ms)


@pytest.mark.parametrize("need", [Need.BODY, Need.TOPICS])
@pytest.mark.parametrize("verdict", [FORWARD, EXEMPT, Throttle(0), Throttle(0, EXEMPT)])
def test_a_small_request_is_forwarded_from_the_read_itself(need, verdict):
    """Nothing is copied, and no memory is reserved."""
    policy = Recorder(lambda _: verdict, needs=need)
    wire = primed(policy)
    frame = f.produce(2, topic="orders")
    assert stop_of(wire, frame) == 4 + len(frame)
    assert wire.held_bytes == 0
    assert len(policy.asked) == 2
    wire.broker(f.produce_reply(2, "orders"))
    assert [number for number, _ in policy.completed] == policy.asked


def test_the_names_and_the_body_are_gone_after_the_verdict():
    """The bytes of the read change then."""
    kept = []
    watcher = Watcher(lambda request: kept.append(request) or FORWARD)
    wire = primed(watcher)
    stop_of(wire, f.produce(2, topic="orders"))
    assert kept[1].body is None
    with pytest.raises(LookupError):
        _ = kept[1].topics


@pytest.mark.parametrize("first", [True, False])
def test_a_broker_opens_no_fetch_session(first):
    """The epoch that asks for one becomes the one that asks for none, and the policy sees the client's."""
    watcher = Watcher(apis={ApiKey.FETCH})
    wire = Wire(make_engine([watcher])) if first else primed(watcher, fetch(0, 0))
    wire.client(fetch(0, 0) + fetch(9, 0) + fetch(9, -1))
    assert wire.to_broker == fetch(0, -1) + fetch(9, -1) + fetch(9, -1)
    assert [seen[2] for seen in watcher.seen[-3:]] == [True] * 3
    assert [head.session_epoch for head in watcher.heads[-3:]] == [0, 0, -1]
    assert wire.held_bytes == 0


@pytest.mark.parametrize("first", [True, False])
def test_a_fetch_that_continues_a_session_is_answered_here(first):
    """It may be from before a reload, or of another connection: the client names all topics again."""
    watcher = Watcher(apis={ApiKey.FETCH})
    wire = Wire(make_engine([watcher])) if first else primed(watcher, fetch(0, 0))
    wire.client(fetch(9, 4))
    assert watcher.seen[-1][2] is False
    assert wire.to_broker == b""
    reply = codec.decode_response(api_of(ApiKey.FETCH, 13), wire.to_client[9:])
    assert reply.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (reply.session_id, reply.responses) == (0, ())
    assert watcher.completed[-1][1] is Outcome.ANSWERED


def test_fetch_sessions_stay_without_such_a_policy():
    """Need.HEAD changes nothing."""
    wire = Wire(make_engine([Recorder(needs=Need.HEAD)]))
    wire.client(fetch(0, 0) + fetch(9, 4))
    assert wire.to_broker == fetch(0, 0) + fetch(9, 4)


@pytest.mark.parametrize(
    ("verdict", "to_broker"),
    [
        (Reject(DENIED), False),
        (Deny({"orders": DENIED}), False),
        (Forward((Patch(2, b"\x00\x01"),)), True),
        (Deny({"others": DENIED}), True),
    ],
    ids=["reject", "deny", "patch", "deny nothing"],
)
def test_another_verdict_is_applied_by_the_general_path(verdict, to_broker):
    """The policy is asked once."""
    verdicts = iter([FORWARD, verdict])
    watcher = Watcher(lambda _: next(verdicts))
    wire = primed(watcher)
    wire.client(f.produce(2, topic="orders"))
    assert len(watcher.seen) == 2
    assert bool(wire.to_broker) is to_broker
    assert len(f.whole_frames(wire.to_client)) == (not to_broker)
    assert wire.held_bytes == 0


@pytest.mark.parametrize("need", [Need.BODY, Need.TOPICS])
def test_a_held_request_is_kept_whole_and_shown_again(need):
    """Its bytes are counted while it waits."""
    verdicts = iter([FORWARD, Hold(1000, "key"), FORWARD])
    policy = Recorder(lambda _: next(verdicts), needs=need)
    wire = primed(policy)
    frame = f.produce(2, topic="orders")
    wire.client(frame)
    assert (wire.to_broker, wire.held_bytes) == (b"", len(frame))
    assert wire.wake("key") == 1
    wire.client(b"")
    assert wire.to_broker == frame
    assert policy.bodies[1] == policy.bodies[2] is not None


@pytest.mark.parametrize("size_bytes", [MAX_FRAME_BYTES, 3 * MAX_STEP_BYTES])
def test_a_large_request_takes_the_general_path(size_bytes):
    """It is copied, and its memory is reserved until it has left."""
    wire = primed(Watcher())
    frame = f.produce(2, size_bytes=size_bytes, topic="orders")
    assert stop_of(wire, frame) == ATTENTION
    wire.settle()
    assert wire.to_broker == frame


def test_a_step_judges_so_many_bytes_in_place():
    """The rest of the read waits for turns, as on the general path; the order stays."""
    watcher = Watcher()
    wire = primed(watcher)
    frames = [f.produce(number, size_bytes=900, topic="orders") for number in range(2, 42)]
    stop_of(wire, b"".join(frames))
    assert MAX_STEP_BYTES // len(frames[0]) < len(watcher.seen) < len(frames)
    wire.settle()
    wire.client(b"")
    assert wire.to_broker == b"".join(frames)


def test_the_sessions_of_a_step_share_these_bytes_and_the_next_step_has_new_ones():
    """Many clients with small requests do not make a step long: the loop reads its clock after the others."""
    watcher = Watcher()
    wires = [primed(watcher)]
    for number in range(10, 40):
        wire = Wire(wires[0].engine)
        wire.client(f.produce(number, topic="orders")).broker(f.produce_reply(number, "orders"))
        wires.append(wire)
    wires[0].advance(1)
    frame = f.produce(2, size_bytes=900, topic="orders")
    fast = [stop_of(wire, frame) != ATTENTION for wire in wires]
    assert fast == [place < MAX_STEP_BYTES // len(frame) for place in range(len(wires))]
    wires[0].advance(1)
    fresh = Wire(wires[0].engine)
    fresh.client(f.produce(1, topic="orders"))
    assert stop_of(fresh, frame) != ATTENTION


def test_while_sessions_wait_for_turns_a_request_waits_for_one_too():
    """It is not judged in the read."""
    watcher = Watcher()
    wire = primed(watcher)
    wire.engine.turns.labour_bytes = 0
    stop_of(wire, f.produce(2, topic="orders"))
    assert len(watcher.seen) == 1
    assert wire.session.client.muted & Mute.PACED


def test_a_request_that_cannot_be_read_ends_the_connection():
    """The general path says so; nothing of it reaches the broker, and the request before it does."""
    good = asked(ApiKey.METADATA, 12, topics=None)
    bad = f.request(ApiKey.METADATA, 12, 1, b"\x09abc", tagged=True)
    wire = primed(Watcher(), good)
    wire.client(good + bad)
    assert wire.to_broker == good
    wire.broker(f.reply(1, bytes(30), tagged=True))
    assert wire.session.reason is CloseReason.CLIENT_PROTOCOL


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("chunk", [5, 1 << 18])
def test_a_message_that_cannot_be_decoded_is_refused(first, chunk):
    """The client gets an error reply, in the read too, and the next request is forwarded."""
    reader = Recorder(lambda request: request.message and FORWARD, needs=Need.BODY)
    good = asked(ApiKey.HEARTBEAT, 4, group_id="billing")
    wire = Wire(make_engine([reader])) if first else primed(reader, good)
    wire.client(f.request(ApiKey.HEARTBEAT, 4, 1, b"\x09ab", tagged=True) + good, chunk)
    (reply,) = f.whole_frames(wire.to_client)
    message = codec.decode_response(api_of(ApiKey.HEARTBEAT, 4), reply[9:])
    assert int(message.error_code) == ErrorCode.INVALID_REQUEST
    assert wire.to_broker == good


def test_what_is_captured_takes_the_general_path():
    """The capture notes each question."""
    capture = Capture()
    wire = primed(Watcher(), capture=capture)
    assert stop_of(wire, f.produce(2, topic="orders")) == ATTENTION
