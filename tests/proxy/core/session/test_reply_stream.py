"""The general path of replies: order, rewriting, Sluice's own replies, and unexpected replies."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.api import FORWARD, Throttle
from proxy.core.errors import CloseReason
from proxy.core.session.questions import inquire
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.throttled import fetch, fetch_reply


def test_a_large_reply_streams_through_and_the_next_one_follows():
    """A reply's exchange stays at the head of the queue until its last byte is sent."""
    big = f.reply(1, b"x" * 600_000)
    wire = Wire().client(f.heartbeat(1) + f.heartbeat(2))
    wire.broker(big[:300_000])
    assert len(wire.session.queue) == 2
    wire.broker(big[300_000:] + f.heartbeat_reply(2))
    assert wire.to_client == big + f.heartbeat_reply(2)
    assert not wire.session.queue


def throttled(decide=None, **options) -> Recorder:
    return Recorder(decide or (lambda _: Throttle(500)), **options)


def test_a_large_throttled_reply_streams_all_the_same():
    """Its first field is stamped in the first read; nothing of it is held."""
    reply = fetch_reply(1, size_bytes=600_000)
    wire = Wire(make_engine([throttled()])).client(fetch(1))
    wire.broker(reply[:300_000])
    assert wire.to_client == fetch_reply(1, 500, 600_000)[:300_000]
    assert wire.held_bytes == 0
    wire.broker(reply[300_000:])
    assert wire.to_client == fetch_reply(1, 500, 600_000)


def test_the_beginning_of_a_watched_reply_waits_until_its_first_field_is_here():
    """It is counted; the beginning of an unwatched reply is never held back."""
    for policies, held in (([throttled()], 11), ([], 0)):
        wire = Wire(make_engine(policies)).client(f.beat(1)).broker(f.beat_reply(1)[:11])
        assert wire.held_bytes == held
        assert len(wire.to_client) == 11 - held
        wire.broker(f.beat_reply(1)[11:])
        assert wire.to_client == f.beat_reply(1, 500 if held else 0)
        assert wire.held_bytes == 0


@pytest.mark.parametrize("hears", [True, False])
def test_a_reply_with_its_throttle_at_the_end_is_kept_only_if_a_policy_may_throttle(hears):
    """And only if it does not come whole."""
    policy = throttled(
        lambda request: Throttle(500) if request.exchange_id == 1 else FORWARD,
        response_apis=None if hears else (),
    )
    topic = "t" * 100
    wire = Wire(make_engine([policy])).client(f.produce(1))
    wire.broker(f.produce_reply(1, topic)[:90])
    assert wire.to_client == b""
    assert wire.held_bytes == 90
    wire.broker(f.produce_reply(1, topic)[90:])
    assert wire.to_client == f.produce_reply(1, topic, 500)
    wire.advance(500)
    wire.client(f.produce(2)).broker(f.produce_reply(2, topic)[:90])
    assert wire.held_bytes == (90 if hears else 0)
    wire.broker(f.produce_reply(2, topic)[90:])
    assert wire.held_bytes == 0


def test_a_reply_that_has_no_room_for_its_throttle_is_the_brokers_fault():
    """It is shorter than its API's."""
    wire = Wire(make_engine([throttled()])).client(f.beat(1)).broker(f.reply(1, b"\x00\x00"))
    assert wire.session.reason is CloseReason.BROKER_PROTOCOL
    wire.release()
    assert wire.held_bytes == 0


def test_an_unexpected_reply_ends_both_sides():
    """It could carry the data of another client."""
    wire = Wire().client(f.heartbeat(7)).broker(f.heartbeat_reply(7) + f.heartbeat_reply(7))
    assert wire.session.reason is CloseReason.BROKER_PROTOCOL


@given(st.integers(1, 60))
def test_an_inquiry_is_sent_at_a_frame_boundary_and_its_reply_is_not_forwarded(cut):
    """It does not cut the client's frames."""
    asked = f.heartbeat(1, pad=30)
    answers: list[bytes | None] = []
    wire = Wire().client(asked[:cut])
    inquire(wire.session, f.heartbeat(77, client_id="sluice"), 77, answers.append)
    wire.settle()
    wire.client(asked[cut:] + f.heartbeat(2))
    sent = f.split(wire.to_broker)
    assert sorted(sent) == sorted([asked, f.heartbeat(77, client_id="sluice"), f.heartbeat(2)])
    order = [struct.unpack_from(">i", each, 8)[0] for each in sent]
    wire.broker(b"".join(f.heartbeat_reply(each) for each in order), chunk=3)
    assert answers == [f.heartbeat_reply(77)]
    assert wire.to_client == f.heartbeat_reply(1) + f.heartbeat_reply(2)
    wire.release()
    assert wire.held_bytes == 0


def test_addresses_in_replies_are_ours_and_the_real_ones_are_learnt():
    """Metadata names our ports; a node outside the range stands at the bootstrap port."""
    real = [(0, "kafka-0.internal", 9092), (2, "kafka-2.internal", 9093), (50, "kafka-50", 1)]
    ours = [(0, "127.0.0.1", 19093), (2, "127.0.0.1", 19095), (50, "127.0.0.1", 19092)]
    for chunk in (5, 100_000):
        wire = Wire().client(f.heartbeat(0) + f.metadata_request(1) + f.heartbeat(2))
        answers = f.heartbeat_reply(0) + f.metadata_reply(1, real) + f.heartbeat_reply(2)
        wire.broker(answers, chunk)
        assert wire.to_client == f.heartbeat_reply(0) + f.metadata_reply(
            1, ours
        ) + f.heartbeat_reply(2)
        assert wire.engine.topology.address_of(2) == ("kafka-2.internal", 9093)
        assert wire.watcher.unmapped == [50]
        wire.release()
        assert wire.held_bytes == 0
