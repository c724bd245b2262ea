"""Connections that have sent no request, or are not authenticated: their deadlines, and who yields its place."""

import pytest

from policies.api import Need
from proxy.core.connection_limits import ConnectionLimits
from proxy.core.errors import CloseReason
from proxy.core.session.channel import Mute
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import plain
from tests.support.messages.throttled import fetch

ALICE = plain("alice", "alice-secret")


def wire_with(*, authenticates: bool = False, **limits: int) -> Wire:
    engine = make_engine()
    engine.limit_connections(ConnectionLimits(**limits))
    engine.newcomers.authenticates = authenticates
    return Wire(engine)


@pytest.mark.parametrize("sent", [b"", f.heartbeat(1)[:-1][:11]])
def test_a_connection_without_a_request_ends_at_its_deadline(sent):
    """Neither earlier nor later; a few bytes are no request."""
    wire = wire_with(first_request_timeout_ms=30_000).client(sent)
    wire.advance(29_999)
    assert not wire.session.ended
    wire.advance(1)
    assert wire.session.reason is CloseReason.FIRST_REQUEST_TIMEOUT
    assert wire.session.detail == "no request within 30000 ms"
    assert wire.session.ended


def test_a_connection_with_a_request_has_no_deadline_and_no_timer():
    """Its entry is gone with its first request."""
    wire = wire_with(first_request_timeout_ms=30_000, authentication_timeout_ms=60_000)
    assert wire.session in wire.engine.newcomers
    wire.client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    assert len(wire.engine.newcomers) == 0
    assert wire.engine.timers.size == 0
    wire.advance(100_000)
    assert not wire.session.ended


def test_a_large_first_request_is_in_time_with_its_head():
    """The time of its body has limits of its own."""
    wire = wire_with(first_request_timeout_ms=1000).client(f.produce(1, size_bytes=50_000)[:2000])
    wire.advance(5000)
    assert not wire.session.ended


def test_a_first_request_that_is_cut_inside_the_fields_a_policy_needs_is_in_time():
    """Its plan is known by its header, so the fast path takes its rest."""
    engine = make_engine([Recorder(needs=Need.HEAD)])
    engine.limit_connections(ConnectionLimits(first_request_timeout_ms=1000))
    for cut_at in range(1, len(fetch(1))):
        wire = Wire(engine).client(fetch(1)[:cut_at]).client(fetch(1)[cut_at:])
        assert wire.to_broker == fetch(1)
        assert wire.session not in engine.newcomers, cut_at


def test_a_deadline_of_zero_is_none():
    """The connection is a newcomer all the same."""
    wire = wire_with()
    wire.advance(10_000_000)
    assert not wire.session.ended
    assert len(wire.engine.newcomers) == 1


@pytest.mark.parametrize("why", ["not attached", "waits for memory"])
def test_the_time_in_which_sluice_does_not_read_is_not_the_clients(why):
    """It has its whole time again when it can be read."""
    wire = wire_with(first_request_timeout_ms=1000)
    session = wire.session
    if why == "not attached":
        session.handle = None
    else:
        session.client.mute(Mute.OUT_OF_MEMORY)
    wire.advance(1000)
    assert not session.ended
    session.handle = wire
    session.client.unmute(Mute.OUT_OF_MEMORY)
    wire.advance(999)
    assert not session.ended
    wire.advance(1)
    assert session.reason is CloseReason.FIRST_REQUEST_TIMEOUT


def test_where_clients_must_authenticate_a_request_alone_is_not_enough():
    """The second deadline counts from the connection, and replaces the first."""
    wire = wire_with(
        authenticates=True, first_request_timeout_ms=1000, authentication_timeout_ms=5000
    )
    wire.advance(900)
    wire.client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    wire.advance(3000)
    wire.client(f.heartbeat(2)).broker(f.heartbeat_reply(2))
    wire.advance(1099)
    assert not wire.session.ended
    wire.advance(1)
    assert wire.session.reason is CloseReason.AUTHENTICATION_TIMEOUT
    assert wire.session.detail == "not authenticated within 5000 ms"


def test_an_authentication_to_the_brokers_must_end_in_time():
    """From its first handshake, also after other requests."""
    wire = wire_with(first_request_timeout_ms=1000, authentication_timeout_ms=5000)
    wire.client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    wire.advance(100_000)
    wire.client(sasl.handshake(2, "PLAIN")).broker(sasl.handshake_reply(2))
    wire.advance(4999)
    assert not wire.session.ended
    wire.advance(1)
    assert wire.session.reason is CloseReason.AUTHENTICATION_TIMEOUT


@pytest.mark.parametrize(("authenticates", "error"), [(False, 0), (False, 58), (True, 0)])
def test_the_outcome_of_an_authentication_ends_the_wait(authenticates, error):
    """Success or failure: what the client does then is between it and the broker. A later one has no deadline."""
    wire = wire_with(authenticates=authenticates, authentication_timeout_ms=5000)
    wire.client(sasl.handshake(1, "PLAIN")).broker(sasl.handshake_reply(1))
    assert wire.session in wire.engine.newcomers
    wire.client(sasl.authenticate(2, ALICE)).broker(sasl.authenticate_reply(2, b"", error))
    assert len(wire.engine.newcomers) == 0
    wire.client(sasl.handshake(3, "PLAIN")).broker(sasl.handshake_reply(3))
    wire.advance(10_000)
    assert not wire.session.ended


def test_the_oldest_yields_first_and_only_after_its_time():
    """In the order of the connections; those with a request never."""
    engine = make_engine()
    first, second, third = wires = [Wire(engine) for _ in range(3)]
    engine.advance(2000)
    assert engine.newcomers.oldest(-1) is None
    assert engine.newcomers.oldest(0) is first.session
    first.client(f.heartbeat(1))
    assert engine.newcomers.oldest(0) is second.session
    second.release()
    assert engine.newcomers.oldest(0) is third.session
    third.client(f.heartbeat(1))
    assert engine.newcomers.oldest(2000) is None
    assert len(wires) == 3


def test_a_user_with_too_many_connections_loses_the_newest_after_its_reply():
    """The client reads that it is authenticated, then the end; the others stay. The next may come when one leaves."""
    engine = make_engine()
    engine.limit_connections(ConnectionLimits(max_per_user=2))

    def authenticated() -> Wire:
        wire = Wire(engine)
        wire.client(sasl.handshake(1, "PLAIN")).broker(sasl.handshake_reply(1))
        return wire.client(sasl.authenticate(2, ALICE)).broker(sasl.authenticate_reply(2))

    first, second, third = (authenticated() for _ in range(3))
    assert third.to_client == sasl.handshake_reply(1) + sasl.authenticate_reply(2)
    assert third.session.reason is CloseReason.MAX_CONNECTIONS_PER_USER
    assert third.session.detail == "'alice' has 2 connections, the limit is 2"
    assert third.session.ended
    assert not first.session.ended
    assert not second.session.ended
    third.release()
    assert engine.connections.of_user("alice") == 2
    first.release()
    assert not authenticated().session.ended
