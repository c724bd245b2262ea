"""One session: what reaches the broker, what reaches the client, and how it ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.api import Respond
from proxy.core.errors import CloseReason
from proxy.core.session.exchange import Exchange
from proxy.core.session.session import Session
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f

CHUNKS = st.integers(1, 200)


def respond(body: bytes = b"\x00\x2a"):
    return Recorder(lambda _: Respond(body), apis={f.HEARTBEAT})


@given(CHUNKS, st.lists(st.integers(0, 300), min_size=1, max_size=8))
def test_requests_reach_the_broker_byte_for_byte_in_any_chunking(chunk, pads):
    """Requests of known APIs that no policy reads pass unchanged."""
    stream = b"".join(f.heartbeat(n, pad=pad) for n, pad in enumerate(pads))
    wire = Wire().client(stream, chunk)
    assert wire.to_broker == stream
    assert len(wire.session.queue) == len(pads)


@given(CHUNKS, CHUNKS, st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=8))
def test_replies_reach_the_client_in_any_chunking_and_acks_0_opens_no_slot(chunk, back, acks):
    """A Produce without acks is passed on and never waited for."""
    stream = b"".join(f.produce(n, acks=ack) for n, ack in enumerate(acks))
    answers = b"".join(f.produce_reply(n) for n, ack in enumerate(acks) if ack)
    wire = Wire().client(stream, chunk)
    assert wire.to_broker == stream
    assert len(wire.session.queue) == sum(1 for ack in acks if ack)
    wire.broker(answers, back)
    assert wire.to_client == answers
    assert not wire.session.queue
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


def test_a_request_the_broker_does_not_answer_ends_its_connection():
    """upstream.request_timeout_ms, counted from the oldest request in flight."""
    wire = Wire(make_engine(request_timeout_ms=1000)).client(f.heartbeat(1))
    wire.advance(600)
    wire.broker(f.heartbeat_reply(1)).client(f.heartbeat(2))
    wire.advance(600)
    assert not wire.session.ended
    wire.advance(400)
    assert wire.session.ended
    assert wire.session.reason is CloseReason.UPSTREAM_REQUEST_TIMEOUT


def test_a_request_that_may_wait_is_not_timed_out_here():
    """A long poll has a deadline of its own."""
    wire = Wire(make_engine(request_timeout_ms=1000)).client(f.produce(1))
    for _ in range(5):
        wire.advance(1000)
    assert not wire.session.ended


def test_the_time_of_a_request_after_a_long_poll_begins_with_its_turn():
    """The broker answers in order, so it is not late before that."""
    wire = Wire(make_engine(request_timeout_ms=1000)).client(f.produce(1) + f.heartbeat(2))
    wire.advance(900)
    wire.broker(f.produce_reply(1))
    wire.advance(900)
    assert not wire.session.ended
    wire.advance(200)
    assert wire.session.ended


def test_a_request_after_an_inquiry_has_a_timeout_too():
    """It ends the session although the broker has answered the inquiry."""
    wire = Wire(make_engine(request_timeout_ms=1000))
    wire.session.inquire(f.heartbeat(77), 77, lambda _: None)
    wire.settle()
    wire.client(f.heartbeat(1))
    wire.advance(1000)
    wire.broker(f.heartbeat_reply(77))
    wire.advance(2500)
    assert wire.session.reason is CloseReason.UPSTREAM_REQUEST_TIMEOUT


def test_a_session_without_its_parts_raises_and_does_not_end_the_process():
    """A field that was never set is an AttributeError in both builds."""
    with pytest.raises(AttributeError):
        Session.__new__(Session).from_client(bytearray(12), 0, 12, 0)


def test_an_exchange_without_a_plan_raises_and_does_not_end_the_process():
    """The same for a field of an object that the fast loop of replies reads."""
    wire = Wire()
    wire.session.queue.entries.append(Exchange.__new__(Exchange))
    with pytest.raises(AttributeError):
        wire.broker(f.heartbeat_reply(0))
