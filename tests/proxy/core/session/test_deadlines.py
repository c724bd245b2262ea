"""When the word passes to Sluice: only while the broker is silent, and never twice running."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from proxy.core.errors import CloseReason
from proxy.core.session.channel import Mute
from proxy.core.session.grace_times import GraceTimes
from tests.support import frames as f
from tests.support.sessions import Wire, make_engine
from tests.support.throttled import fetch, fetch_reply
from tests.support.waiting import FETCH_MS, WAIT_MS, empty, fetch_waiting, ids

if TYPE_CHECKING:
    from proxy.core.engine import Engine

SILENCE_MS = 10_000
QUICK_MS = 400
"""Of a produce with a timeout of 800 ms: half of it is its grace."""


def quick_produce(correlation_id: int) -> bytes:
    """acks=all, with a timeout of 800 ms."""
    data = f.produce(correlation_id)
    return data.replace(struct.pack(">i", 30_000), struct.pack(">i", 800), 1)


def careful(**options: int) -> Engine:
    """An engine as the configuration makes it."""
    return make_engine(
        graces=GraceTimes(silence_ms=SILENCE_MS), request_timeout_ms=120_000, **options
    )


# -- a broker that lives --------------------------------------------------------------------------


def test_a_broker_that_needs_longer_than_the_wait_gives_its_records():
    """1.6 s for each fetch of max_wait 500 ms: every record comes, and nothing is made here."""
    wire = Wire(careful(), 1)
    got = b""
    for n in range(20):
        wire.client(fetch(n))
        wire.advance(1_600)
        wire.broker(fetch_reply(n))
        got += fetch_reply(n)
    assert wire.to_client == got
    assert wire.engine.expired.fetch == 0


def test_a_produce_that_is_confirmed_late_gets_its_yes():
    """Its timeout is 800 ms, so 400 ms are its own deadline; the broker confirms after 600."""
    wire = Wire(careful(), 1).client(quick_produce(1))
    wire.advance(600)
    wire.broker(f.produce_reply(1))
    assert wire.to_client == f.produce_reply(1)


def test_a_broker_that_answers_anybody_is_alive():
    """Bytes on any other connection to the same node count, up to the request timeout."""
    engine = careful()
    slow, other, elsewhere = Wire(engine, 1), Wire(engine, 1), Wire(engine, 2)
    slow.client(fetch(1))
    for n in range(29):
        other.client(f.beat(n))
        elsewhere.client(f.beat(n))
        slow.advance(4_000)
        other.broker(f.beat_reply(n))
    assert slow.to_client == b""
    assert not slow.session.ended
    slow.advance(4_000)
    assert slow.session.reason is CloseReason.UPSTREAM_REQUEST_TIMEOUT
    assert slow.session.detail == "Fetch unanswered for 120000 ms"


def test_another_broker_that_answers_proves_nothing():
    """Each node for itself."""
    engine = careful()
    slow, elsewhere = Wire(engine, 1), Wire(engine, 2)
    slow.client(fetch(1))
    for n in range(10):
        elsewhere.client(f.beat(n))
        slow.advance(1_000)
        elsewhere.broker(f.beat_reply(n))
    assert slow.to_client == empty(1)


def test_two_brokers_behind_the_bootstrap_port_are_told_apart_by_their_addresses():
    """The shell says whose address was dialled."""
    engine = careful()
    one, two = Wire(engine), Wire(engine)
    one.session.node = engine.topology.nodes.health("10.0.0.1:9092")
    two.session.node = engine.topology.nodes.health("10.0.0.2:9092")
    one.client(fetch(1))
    two.client(fetch(1))
    one.advance(9_000)
    two.broker(fetch_reply(1)).client(fetch(2))
    one.advance(1_000)
    assert one.to_client == empty(1)
    assert two.to_client == fetch_reply(1)


# -- a broker that is silent ----------------------------------------------------------------------


def test_a_fetch_at_a_silent_broker_is_answered_after_the_silence():
    """Not a millisecond earlier."""
    wire = Wire(careful(), 1).client(fetch(1))
    wire.advance(SILENCE_MS - 1)
    assert wire.to_client == b""
    wire.advance(1)
    assert wire.to_client == empty(1)


def test_a_produce_at_a_silent_broker_is_answered_at_its_own_deadline_if_that_is_later():
    """Its client would hang up at 30 s."""
    wire = Wire(careful(), 1).client(f.produce(1))
    wire.advance(WAIT_MS - 1)
    assert wire.to_client == b""
    wire.advance(1)
    assert ids(wire.to_client) == [1]


def test_an_idle_broker_is_not_silent():
    """Silence counts from when something was owed."""
    wire = Wire(careful(), 1).client(f.beat(1)).broker(f.beat_reply(1))
    wire.advance(3_600_000)
    wire.client(fetch(2))
    wire.advance(SILENCE_MS - 1)
    assert ids(wire.to_client) == [1]
    wire.advance(1)
    assert ids(wire.to_client) == [1, 2]


def test_a_byte_on_another_connection_begins_the_silence_again():
    """The timer looks again; it does not come up at every byte."""
    engine = careful()
    slow, other = Wire(engine, 1), Wire(engine, 1)
    slow.client(fetch(1))
    other.client(f.beat(1))
    slow.advance(9_000)
    other.broker(f.beat_reply(1))
    slow.advance(SILENCE_MS - 1)
    assert slow.to_client == b""
    slow.advance(1)
    assert slow.to_client == empty(1)


def test_a_broker_that_is_known_to_be_silent_need_not_prove_it_for_each_request():
    """Once a reply was made in its place, what comes later is answered at its own deadline, until it speaks."""
    engine = careful()
    first, later = Wire(engine, 1), Wire(engine, 1)
    first.client(fetch(1))
    first.advance(SILENCE_MS)
    later.client(fetch(2))
    first.advance(FETCH_MS)
    assert later.to_client == empty(2)
    first.broker(fetch_reply(1))
    last = Wire(engine, 1).client(fetch(3))
    first.advance(SILENCE_MS - 1)
    assert last.to_client == b""


def test_what_was_owed_to_a_connection_that_is_gone_says_nothing_about_the_broker():
    """An hour later it has to be silent anew."""
    engine = careful()
    gone = Wire(engine, 1).client(fetch(1))
    later = Wire(engine, 1)
    gone.advance(SILENCE_MS)
    gone.session.client_lost(gone.now_ms)
    gone.release()
    later.advance(3_600_000)
    later.client(fetch(2))
    later.advance(SILENCE_MS - 1)
    assert later.to_client == b""


def test_a_request_timeout_below_the_silence_is_the_silence():
    """An answer is better than the end of the connection."""
    wire = Wire(make_engine(graces=GraceTimes(silence_ms=SILENCE_MS), request_timeout_ms=5_000), 1)
    wire.client(fetch(1))
    wire.advance(5_000)
    assert wire.to_client == empty(1)
    assert not wire.session.ended


def test_a_wait_that_is_cut_ends_however_alive_the_broker_is():
    """A fetch that wants 24 days has two minutes and the grace; it loses nothing by that."""
    engine = careful()
    wire, other = Wire(engine, 1), Wire(engine, 1)
    wire.client(fetch_waiting(1, max_wait_ms=2**31 - 1))
    for n in range(121):
        assert wire.to_client == b""
        other.client(f.beat(n))
        wire.advance(1_000)
        other.broker(f.beat_reply(n))
    assert wire.to_client == empty(1)
    assert not wire.session.ended


# -- never twice running --------------------------------------------------------------------------


@pytest.mark.parametrize("between", [b"", f.beat(9)])
def test_after_a_reply_was_thrown_away_the_next_fetch_waits_for_the_brokers(between):
    """With a silence of 0 a broker that needs 1.6 s would give no record for ever; it gives every second one."""
    wire = Wire(make_engine(request_timeout_ms=120_000), 1)
    client = b""
    for n in range(0, 20, 2):
        wire.client(fetch(n))
        wire.advance(FETCH_MS)
        client += empty(n)
        wire.client(between + fetch(n + 1))
        wire.advance(100)
        wire.broker(fetch_reply(n))
        if between:
            wire.broker(f.beat_reply(9))
            client += f.beat_reply(9)
        wire.advance(1_600)
        wire.broker(fetch_reply(n + 1))
        client += fetch_reply(n + 1)
    assert wire.to_client == client


def test_who_waits_for_the_broker_does_not_wait_for_ever():
    """The request timeout ends it."""
    wire = Wire(make_engine(request_timeout_ms=20_000), 1).client(fetch(1))
    wire.advance(FETCH_MS)
    wire.broker(fetch_reply(1)).client(fetch(2))
    wire.advance(19_999)
    assert not wire.session.ended
    wire.advance(1)
    assert wire.session.reason is CloseReason.UPSTREAM_REQUEST_TIMEOUT


def test_a_drain_answers_also_who_waits_for_the_broker():
    """And asks nobody whether the broker is silent."""
    for engine in (careful(), make_engine()):
        wire = Wire(engine, 1).client(fetch(1))
        wire.advance(SILENCE_MS)
        wire.broker(fetch_reply(1)).client(fetch(2) + fetch(3))
        wire.drain()
        assert wire.to_client == empty(1) + empty(2) + empty(3)
        assert wire.session.ended


def test_what_is_answered_here_does_not_put_off_what_stands_behind_it():
    """The reply made here waits in the outbox for a moment; that is not a client that does not read."""
    wire = Wire(make_engine(request_timeout_ms=120_000), 1).client(
        fetch(1) + fetch_waiting(2, max_wait_ms=900)
    )
    wire.advance(FETCH_MS)
    assert ids(wire.to_client) == [1]
    wire.advance(399)
    assert ids(wire.to_client) == [1]
    wire.advance(1)
    assert ids(wire.to_client) == [1, 2]


def test_a_broker_whose_reply_waits_for_memory_here_is_not_silent():
    """It has begun to answer; that it is not read is no fault of its own."""
    wire = Wire(make_engine(graces=GraceTimes(silence_ms=SILENCE_MS), request_timeout_ms=30_000), 1)
    wire.client(fetch(1))
    wire.session.broker.mute(Mute.OUT_OF_MEMORY)
    for _ in range(100):
        wire.advance(1_000)
    assert wire.session.reason is None
    assert wire.to_client == b""
    wire.session.broker.unmute(Mute.OUT_OF_MEMORY)
    wire.broker(fetch_reply(1))
    assert wire.to_client == fetch_reply(1)
