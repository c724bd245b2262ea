"""A connection whose client's certificate ends: no more requests, the replies that are due, then the end."""

import pytest

from proxy.core.errors import CloseReason
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f

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


def test_a_certificate_that_has_ended_already_lets_no_request_pass():
    """Its handshake may have been made just before."""
    wire = wire_until(0)
    wire.advance(1)
    assert wire.session.ended
    assert wire.client(f.heartbeat(1)).to_broker == b""


def test_a_connection_that_ends_first_leaves_no_timer():
    """Thousands come and go while one certificate holds."""
    wire = wire_until(END_MS)
    wire.session.end(CloseReason.CLIENT_CLOSED, "", 0)
    wire.session.release(0)
    assert wire.engine.timers.size == 0
    assert not wire.engine.sessions
