"""Replies that Sluice makes: in order, in their API's format, and heard like a broker's.

`test_differential.py` has their throttles, before and behind other replies.
"""

import struct

import pytest

from policies.api import FORWARD, Outcome, Reject, Respond, Throttle
from proxy.core.errors import CloseReason
from proxy.core.session.request_stream import MAX_REFUSED_BYTES
from tests.support.core.holding import NEEDS
from tests.support.core.policies import Recorder, Silent
from tests.support.core.quiet import Quiet
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.throttled import produce9
from wire import codec
from wire.apis import ApiKey
from wire.errors import ErrorCode
from wire.schema import make_message

REFUSE = Reject(ErrorCode.POLICY_VIOLATION)
BODY = b"\x00\x00\x00\x00\x00\x2c"  # Heartbeat v1: throttle_time_ms 0, POLICY_VIOLATION (44)


def stamped(ms: int) -> bytes:
    return ms.to_bytes(4, "big") + BODY[4:]


def second(verdict, **options) -> Recorder:
    """Return a policy that gives this verdict on the second Heartbeat."""
    return Recorder(
        lambda r: verdict if r.exchange_id == 2 else FORWARD, apis={f.HEARTBEAT}, **options
    )


@NEEDS
@pytest.mark.parametrize("verdict", [REFUSE, Respond(BODY)], ids=["reject", "respond"])
def test_a_reply_made_here_waits_for_its_turn_and_is_heard(verdict, needs):
    """Policies hear it with its size, like a broker's."""
    policy = second(verdict, needs=needs)
    wire = Wire(make_engine([policy])).client(f.beat(1) + f.beat(2) + f.beat(3), 9)
    assert wire.to_client == b""
    wire.broker(f.beat_reply(1) + f.beat_reply(3), 5)
    answer = f.reply(2, BODY)
    assert wire.to_client == f.beat_reply(1) + answer + f.beat_reply(3)
    assert wire.to_broker == f.beat(1) + f.beat(3)
    assert sorted(policy.heard) == [(1, 10), (2, len(answer) - 4), (3, 10)]
    assert (2, Outcome.ANSWERED) in policy.completed
    assert wire.session.queue.diverted == 0
    wire.release()
    assert wire.held_bytes == 0


@NEEDS
@pytest.mark.parametrize("brokers_ms", [0, 300, 900])
def test_the_reply_to_a_join_group_has_the_brokers_throttle_time_alone(needs, brokers_ms):
    """The client is muted all the same: kafka-python would never send the SyncGroup that follows."""

    def reply(throttle_ms: int) -> bytes:
        return f.reply(1, struct.pack(">i", throttle_ms) + bytes(20))

    ask = f.request(ApiKey.JOIN_GROUP, 5, 1, body=bytes(20))
    wire = Wire(make_engine([Quiet(needs=needs)])).client(ask + f.beat(2))
    wire.broker(reply(brokers_ms))
    assert wire.to_client == reply(brokers_ms)
    wire.advance(max(500, brokers_ms) - 1)
    assert wire.to_broker == ask
    wire.advance(1)
    assert wire.to_broker == ask + f.beat(2)


def test_an_error_reply_carries_its_throttle():
    """Wherever the field stands in that API's response."""
    policy = Silent(lambda _: Throttle(500, REFUSE), apis={f.PRODUCE})
    for asked, at in ((f.produce(1), slice(-4, None)), (produce9(1), slice(-5, -1))):
        wire = Wire(make_engine([policy])).client(asked)
        (answer,) = f.split(wire.to_client)
        assert answer[at] == (500).to_bytes(4, "big")
        assert f.correlation_id(answer) == 1


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Reject(44), "POLICY_VIOLATION"),
        (Reject(44, message="no topic of this kind"), "no topic of this kind"),
        (Throttle(7, Reject(44, message="no topic of this kind")), "no topic of this kind"),
    ],
    ids=["code", "message", "throttled"],
)
def test_a_refused_client_is_told_by_which_policy_and_why(verdict, words):
    """Where the response has an error_message."""
    api = api_of(ApiKey.CREATE_PARTITIONS, 2)
    shape = codec.request_shape(api)
    topic = make_message(shape.field("topics").shape, 0, {"name": "orders"})
    body = codec.encode(make_message(shape, 0, {"topics": (topic,)}))
    wire = Wire(make_engine([Recorder(), Recorder(lambda _: verdict), Recorder()]))
    wire.client(f.request(ApiKey.CREATE_PARTITIONS, 2, 1, body, tagged=True))
    (reply,) = f.split(wire.to_client)
    (result,) = codec.decode_response(api, reply[9:]).results  # after size, id and tags
    assert (result.name, int(result.error_code)) == ("orders", 44)
    assert result.error_message == f"refused by policy p1 of Sluice: {words}"
    assert wire.to_broker == b""


def test_a_refused_request_without_reply_closes_the_connection():
    """No reply can carry the error, nor a throttle."""
    policy = Silent(lambda _: Throttle(500, REFUSE))
    wire = Wire(make_engine([policy])).client(f.produce(1, acks=0) + f.produce(2))
    assert wire.session.ended
    assert wire.session.reason is CloseReason.POLICY
    assert wire.to_client == wire.to_broker == b""
    assert policy.completed == [(1, Outcome.ANSWERED)]
    wire.release()
    assert wire.held_bytes == 0


def test_a_throttled_request_too_large_to_refuse_closes_the_connection():
    """No more than MAX_REFUSED_BYTES are kept for an error reply; the refusal is reported all the same."""
    policy = Silent(lambda _: Throttle(500, REFUSE))
    wire = Wire(make_engine([policy]))
    wire.client(f.produce(1, size_bytes=MAX_REFUSED_BYTES)[:300_000])
    assert wire.session.ending
    assert wire.held_bytes == 0
    assert wire.to_broker == b""
    assert policy.completed == [(1, Outcome.ANSWERED)]
    assert [each.kind for each in wire.watcher.refused] == ["reject"]


def test_a_body_that_is_no_response_is_its_policys_fault():
    """Seen when a throttle has no place in it; the client is not blamed, and the request completes."""
    policy = Silent(lambda _: Throttle(500, Respond(b"\x00")))
    wire = Wire(make_engine([policy])).client(f.beat(1))
    assert wire.session.reason is CloseReason.POLICY_FAULT
    assert wire.watcher.policy_errors == [("p0", "on_request")]
    wire.release()
    assert policy.completed == [(1, Outcome.DISCONNECTED)]
    assert wire.held_bytes == 0


@pytest.mark.parametrize(
    ("code", "close", "ends"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, None, True),
        (ErrorCode.REQUEST_TIMED_OUT, False, False),
        (ErrorCode.POLICY_VIOLATION, None, False),
    ],
)
@NEEDS
@pytest.mark.parametrize("chunk", [1 << 18, 9])
def test_no_write_overtakes_a_refused_one_that_the_client_sends_again(
    needs, chunk, code, close, ends
):
    """Its connection ends, so that the client sends the writes after it again too."""
    verdicts = {2: Reject(code, close)}
    policy = Recorder(
        lambda r: verdicts.get(r.exchange_id, FORWARD), apis={ApiKey.PRODUCE}, needs=needs
    )
    wire = Wire(make_engine([policy])).client(f.produce(1) + f.produce(2) + f.produce(3), chunk)
    assert wire.to_broker == f.produce(1) + (b"" if ends else f.produce(3))
    wire.broker(f.produce_reply(1))
    assert len(f.whole_frames(wire.to_client)) == 2
    assert wire.session.ended is ends
