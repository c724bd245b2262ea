"""When Sluice answers in place of the broker: only while the broker is silent, and never twice in a row."""

import struct

import pytest

from proxy.core.engine import Engine
from proxy.core.errors import CloseReason
from proxy.core.session.channel import Mute
from proxy.core.session.grace_times import GraceTimes
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.throttled import fetch, fetch_reply
from tests.support.messages.waiting import FETCH_MS, empty, fetch_waiting, ids

SILENCE_MS = 10_000
QUICK_MS = 400
"""Of a produce with a timeout of 800 ms: half of it is its grace."""


def quick_produce(correlation_id: int) -> bytes:
    """Return a Produce with acks=all and a timeout of 800 ms."""
    data = f.produce(correlation_id)
    return data.replace(struct.pack(">i", 30_000), struct.pack(">i", 800), 1)


def careful(**options: int) -> Engine:
    """Return an engine as the configuration makes it."""
    return make_engine(
        graces=GraceTimes(silence_ms=SILENCE_MS), request_timeout_ms=120_000, **options
    )


# -- a broker that is alive ----------------------------------------------------------------------


@pytest.mark.parametrize("asked", [fetch, quick_produce])
def test_a_broker_that_needs_longer_than_the_wait_gives_its_own_reply(asked):
    """1.6 s for each fetch of max_wait 500 ms, and for each produce of 400: nothing is made here."""
    reply = fetch_reply if asked is fetch else f.produce_reply
    wire = Wire(careful(), 1)
    for n in range(20):
        wire.client(asked(n))
        wire.advance(1_600)
        wire.broker(reply(n))
    assert wire.to_client == b"".join(map(reply, range(20)))
    assert wire.engine.expired.fetch == wire.engine.expired.produce == 0


def test_a_broker_that_answers_on_another_connection_is_alive():
    """Bytes on any connection to the same node count, up to the request timeout."""
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
    """Silence is measured for each node."""
    engine = careful()
    slow, elsewhere = Wire(engine, 1), Wire(engine, 2)
    slow.client(fetch(1))
    for n in range(10):
        elsewhere.client(f.beat(n))
        slow.advance(1_000)
        elsewhere.broker(f.beat_reply(n))
    assert slow.to_client == empty(1)


def test_two_brokers_behind_the_bootstrap_port_are_told_apart_by_their_addresses():
    """The shell sets the node of the address that it dialled."""
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


def test_an_idle_broker_is_not_silent():
    """Silence counts from when the broker owes a reply."""
    wire = Wire(careful(), 1).client(f.beat(1)).broker(f.beat_reply(1))
    wire.advance(3_600_000)
    wire.client(fetch(2))
    wire.advance(SILENCE_MS - 1)
    assert ids(wire.to_client) == [1]
    wire.advance(1)
    assert ids(wire.to_client) == [1, 2]


def test_a_byte_on_another_connection_begins_the_silence_again():
    """The fetch is answered a whole silence later."""
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


def test_requests_at_a_broker_that_is_known_to_be_silent_have_their_own_deadlines():
    """From the first reply that Sluice makes in its place until its next byte."""
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


def test_a_closed_connection_proves_no_silence_of_its_broker():
    """A fetch an hour later waits for a whole silence."""
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
    """The fetch gets an empty reply, and the session stays open."""
    wire = Wire(make_engine(graces=GraceTimes(silence_ms=SILENCE_MS), request_timeout_ms=5_000), 1)
    wire.client(fetch(1))
    wire.advance(5_000)
    assert wire.to_client == empty(1)
    assert not wire.session.ended


def test_a_capped_wait_ends_even_if_the_broker_is_alive():
    """A fetch with a max_wait_ms of 24 days is answered after two minutes and the grace."""
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


# -- never twice in a row --------------------------------------------------------------------------


@pytest.mark.parametrize("between", [b"", f.beat(9)])
def test_after_a_reply_was_dropped_the_next_fetch_waits_for_the_brokers(between):
    """With a silence of 0 a broker that needs 1.6 s a reply still delivers every second one."""
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


def test_a_fetch_that_waits_for_the_broker_ends_at_the_request_timeout():
    """The fetch before it was answered by Sluice, so this one needs the broker."""
    wire = Wire(make_engine(request_timeout_ms=20_000), 1).client(fetch(1))
    wire.advance(FETCH_MS)
    wire.broker(fetch_reply(1)).client(fetch(2))
    wire.advance(19_999)
    assert not wire.session.ended
    wire.advance(1)
    assert wire.session.reason is CloseReason.UPSTREAM_REQUEST_TIMEOUT


def test_a_drain_also_answers_a_fetch_that_waits_for_the_broker():
    """Whether the broker is silent does not matter."""
    for engine in (careful(), make_engine()):
        wire = Wire(engine, 1).client(fetch(1))
        wire.advance(SILENCE_MS)
        wire.broker(fetch_reply(1)).client(fetch(2) + fetch(3))
        wire.drain()
        assert wire.to_client == empty(1) + empty(2) + empty(3)
        assert wire.session.ended


def test_an_expired_request_does_not_delay_the_deadline_of_the_next():
    """Its reply in the outbox does not count as a client that does not read."""
    wire = Wire(make_engine(request_timeout_ms=120_000), 1).client(
        fetch(1) + fetch_waiting(2, max_wait_ms=900)
    )
    wire.advance(FETCH_MS)
    assert ids(wire.to_client) == [1]
    wire.advance(399)
    assert ids(wire.to_client) == [1]
    wire.advance(1)
    assert ids(wire.to_client) == [1, 2]


def test_a_broker_whose_reply_waits_for_memory_in_sluice_is_not_silent():
    """It has begun to answer; Sluice does not read the reply."""
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
