"""The general path of replies: order, rewriting, replies of our own, and replies nobody asked for."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from policies.api import Respond
from proxy.core.errors import CloseReason
from tests.support import frames as f
from tests.support.policies import Recorder
from tests.support.sessions import Wire, make_engine

CHUNKS = st.integers(1, 200)


def respond(body: bytes = b"\x00\x2a"):
    return Recorder(lambda _: Respond(body), apis={f.HEARTBEAT})


def test_a_large_reply_streams_through_and_the_next_one_follows():
    """A reply's exchange stays at the head until its last byte is through."""
    big = f.reply(1, b"x" * 600_000)
    wire = Wire().client(f.heartbeat(1) + f.heartbeat(2))
    wire.broker(big[:300_000])
    assert len(wire.session.queue) == 2
    wire.broker(big[300_000:] + f.heartbeat_reply(2))
    assert wire.to_client == big + f.heartbeat_reply(2)
    assert not wire.session.queue


def test_a_reply_with_a_foreign_correlation_id_kills_both_sides():
    """A mixed-up reply could be somebody else's data."""
    wire = Wire().client(f.heartbeat(7))
    wire.broker(f.heartbeat_reply(8))
    assert wire.session.ended
    assert wire.session.reason is CloseReason.BROKER_PROTOCOL
    assert wire.to_client == b""


def test_a_reply_nobody_asked_for_kills_both_sides():
    """Also when it looks well."""
    wire = Wire().client(f.heartbeat(7)).broker(f.heartbeat_reply(7) + f.heartbeat_reply(7))
    assert wire.session.reason is CloseReason.BROKER_PROTOCOL


def test_local_replies_wait_for_their_turn_behind_the_brokers():
    """Replies leave in request order, whoever made them."""
    wire = Wire(make_engine([respond()]))
    wire.client(f.metadata_request(1) + f.heartbeat(2) + f.produce(3) + f.heartbeat(4))
    assert wire.to_client == b""
    wire.broker(f.metadata_reply(1, [])[:9])
    assert wire.to_client == b""
    wire.broker(f.metadata_reply(1, [])[9:])
    assert [f.correlation_id(each) for each in f.split(wire.to_client)] == [1, 2]
    wire.broker(f.produce_reply(3))
    assert [f.correlation_id(each) for each in f.split(wire.to_client)] == [1, 2, 3, 4]
    assert wire.to_broker == f.metadata_request(1) + f.produce(3)
    wire.release()
    assert wire.held_bytes == 0


@given(st.integers(1, 60))
def test_a_question_of_our_own_goes_out_at_a_frame_boundary_and_its_reply_stays_here(cut):
    """The client never sees it, and its own frames are not cut by it."""
    asked = f.heartbeat(1, pad=30)
    answers: list[bytes | None] = []
    wire = Wire().client(asked[:cut])
    wire.session.inquire(f.heartbeat(77, client_id="sluice"), 77, answers.append)
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


def test_a_question_that_gets_no_reply_hears_so():
    """The connection ended first."""
    answers: list[bytes | None] = []
    wire = Wire()
    wire.session.inquire(f.heartbeat(77), 77, answers.append)
    wire.session.broker_gone(CloseReason.BROKER_CLOSED, 0)
    assert answers == [None]


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
