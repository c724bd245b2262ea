"""Retiring sessions end at a frame boundary with nothing in flight; a busy one is given its time, and no more."""

import pytest

from policies.api import Hold
from proxy.core.errors import CloseReason
from proxy.core.retirements import LAST_REPLIES_MS, MAX_ENDED, PATIENCE_MS, SCAN_MS
from tests.support.core.holding import held
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f

REASON = CloseReason.MAX_AGE


def retire(wire: Wire, patience_ms: int = PATIENCE_MS) -> None:
    wire.engine.retirements.retire(wire.session, REASON, "because", wire.now_ms, patience_ms)


def test_a_session_at_rest_ends_at_once():
    """Nothing is in flight, so its client loses nothing."""
    wire = Wire().client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    retire(wire)
    wire.advance(1)
    assert wire.session.ended
    assert (wire.session.reason, wire.session.detail) == (REASON, "because")
    assert wire.given_turns
    wire.release()
    assert not len(wire.engine.retirements)
    wire.advance(SCAN_MS)
    assert wire.engine.timers.size == 0


def test_a_session_with_a_request_in_flight_works_on_until_its_reply_is_out():
    """It even takes further requests, until it is at rest."""
    wire = Wire().client(f.heartbeat(1))
    retire(wire)
    wire.advance(SCAN_MS)
    assert not wire.session.ended
    wire.client(f.heartbeat(2)).broker(f.heartbeat_reply(1)).advance(SCAN_MS)
    assert not wire.session.ended
    wire.broker(f.heartbeat_reply(2)).advance(SCAN_MS)
    assert wire.session.ended
    assert wire.to_client == f.heartbeat_reply(1) + f.heartbeat_reply(2)


@pytest.mark.parametrize("cut", [1, 6, 12, 30])
def test_a_session_inside_a_request_is_not_at_rest(cut):
    """The outcome never depends on where a read ended, and not one byte of a request is lost."""
    asked = f.produce(1, size_bytes=300)
    wire = Wire().client(asked[:cut])
    retire(wire)
    wire.advance(SCAN_MS)
    assert not wire.session.ended
    wire.client(asked[cut:]).broker(f.produce_reply(1)).advance(SCAN_MS)
    assert wire.session.ended
    assert wire.to_client == f.produce_reply(1)


def test_a_session_with_unread_bytes_in_its_socket_is_not_at_rest():
    """They are a request that its client has sent in good faith."""
    wire = Wire()
    unread = {wire.session: 40}
    wire.engine.reservations.unread_bytes = lambda session: unread[session]
    retire(wire)
    wire.advance(SCAN_MS)
    assert not wire.session.ended
    unread[wire.session] = 0
    wire.advance(SCAN_MS)
    assert wire.session.ended


def test_a_client_that_never_rests_is_stopped_between_two_requests():
    """After its time no more requests are taken; those in flight are answered first."""
    wire = Wire().client(f.heartbeat(0))
    retire(wire)
    for n in range(PATIENCE_MS // SCAN_MS):
        wire.client(f.heartbeat(n + 1)).broker(f.heartbeat_reply(n)).advance(SCAN_MS)
        last = n + 1
    wire.advance(SCAN_MS)
    assert wire.session.ending
    assert not wire.session.ended
    wire.client(f.heartbeat(9999))
    assert not wire.to_broker.endswith(f.heartbeat(9999))
    wire.broker(f.heartbeat_reply(last))
    assert wire.session.ended
    assert wire.to_client.endswith(f.heartbeat_reply(last))
    assert wire.session.reason is REASON


def test_a_request_that_has_begun_is_finished_before_its_session_stops():
    """With no patience at all, too: it is forwarded whole, and answered."""
    asked = f.produce(1, size_bytes=500)
    wire = Wire().client(asked[:100])
    retire(wire, patience_ms=0)
    wire.advance(SCAN_MS)
    wire.client(asked[100:] + f.heartbeat(2))
    assert wire.to_broker == asked
    wire.broker(f.produce_reply(1))
    assert wire.session.ended
    assert wire.to_client == f.produce_reply(1)


def test_a_peer_that_owes_the_rest_does_not_keep_the_session():
    """A silent broker, or half a request, is waited for until LAST_REPLIES_MS and no longer."""
    silent, half = Wire().client(f.heartbeat(1)), Wire().client(f.produce(1)[:60])
    for wire in (silent, half):
        retire(wire)
        wire.advance(PATIENCE_MS + LAST_REPLIES_MS - 1)
        assert not wire.session.ended
        wire.advance(SCAN_MS + 1)
        assert wire.session.ended
        assert wire.session.reason is REASON
        wire.release()
        assert wire.held_bytes == 0


def test_a_held_request_is_forwarded_before_its_session_ends():
    """It was taken, so it is owed an answer."""
    wire, _ = held(verdict=Hold(PATIENCE_MS * 2, "key"))
    retire(wire)
    wire.advance(PATIENCE_MS + SCAN_MS)
    assert wire.session.ending
    assert not wire.session.ended
    wire.advance(PATIENCE_MS)
    wire.broker(f.heartbeat_reply(1))
    assert wire.session.ended
    assert wire.to_client == f.heartbeat_reply(1)


def test_the_first_reason_is_the_one_that_is_reported():
    """Another that comes later changes nothing, and neither does one for a session that ends."""
    wire = Wire().client(f.heartbeat(1))
    retire(wire)
    wire.engine.retirements.retire(wire.session, CloseReason.ROUTE_CHANGED, "later", wire.now_ms)
    wire.broker(f.heartbeat_reply(1)).advance(SCAN_MS)
    retire(wire)
    assert wire.session.reason is REASON
    wire.release()
    assert not len(wire.engine.retirements)


def test_a_session_that_ends_otherwise_is_forgotten():
    """Its own reason stays, and no timer is left."""
    wire = Wire().client(f.heartbeat(1))
    retire(wire)
    wire.session.client_lost(wire.now_ms)
    wire.release()
    wire.advance(PATIENCE_MS + LAST_REPLIES_MS)
    assert wire.watcher.closed == [(CloseReason.CLIENT_RESET, "")]
    assert wire.engine.timers.size == 0


def test_many_that_retire_at_once_end_a_few_in_each_step():
    """So that one step of the event loop is not long; each ends all the same."""
    engine = make_engine()
    wires = [Wire(engine) for _ in range(3 * MAX_ENDED)]
    for wire in wires:
        retire(wire)
    seen = []
    for _ in range(5):
        wires[0].advance(1)
        seen.append(sum(wire.session.ended for wire in wires))
    assert seen == [MAX_ENDED, 2 * MAX_ENDED, 3 * MAX_ENDED, 3 * MAX_ENDED, 3 * MAX_ENDED]


# -- a client's certificate ends -------------------------------------------------------------------

END_MS = 90_000


def wire_until(end_ms: int | None) -> Wire:
    return Wire(make_engine(), ends_ms=end_ms)


def test_a_connection_ends_with_the_certificate_of_its_client_and_not_before():
    """An idle one ends at that moment."""
    wire = wire_until(END_MS).client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    wire.advance(END_MS - 1)
    wire.client(f.heartbeat(2)).broker(f.heartbeat_reply(2))
    assert not wire.session.ending
    wire.advance(1)
    assert wire.session.ended
    assert wire.session.reason is CloseReason.CERTIFICATE_EXPIRED
    assert wire.session.detail == "the client's certificate has ended"
    assert wire.to_client == f.heartbeat_reply(1) + f.heartbeat_reply(2)


def test_replies_that_are_due_are_sent_and_no_request_is_taken():
    """A request is answered that came while the certificate held."""
    wire = wire_until(END_MS).client(f.heartbeat(1))
    wire.advance(END_MS)
    wire.client(f.heartbeat(2))
    assert wire.session.ending
    assert not wire.session.ended
    wire.broker(f.heartbeat_reply(1))
    assert wire.session.ended
    assert (wire.to_broker, wire.to_client) == (f.heartbeat(1), f.heartbeat_reply(1))


def test_a_client_that_stops_in_a_request_does_not_stay():
    """The request is lost: its rest would come after the end."""
    wire = wire_until(END_MS).client(f.heartbeat(1)[:9])
    wire.advance(END_MS)
    assert wire.session.ended
    wire.session.release(END_MS)
    assert wire.held_bytes == 0


@pytest.mark.parametrize("end_ms", [None, 2**53])
def test_without_an_end_and_with_one_far_away_the_connection_stays(end_ms):
    """The year 287396 is a certificate's."""
    wire = wire_until(end_ms)
    wire.advance(86_400_000)
    assert not wire.session.ending
    assert wire.engine.timers.size == (end_ms is not None)


def test_a_connection_that_ends_first_leaves_no_timer():
    """Thousands come and go while one certificate holds."""
    wire = wire_until(END_MS)
    wire.session.end(CloseReason.CLIENT_CLOSED, "", 0)
    wire.session.release(0)
    assert wire.engine.timers.size == 0
    assert not wire.engine.sessions
