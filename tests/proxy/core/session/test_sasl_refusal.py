"""With custody a client's SASL requests are refused here, in their turn, and no broker sees them."""

from __future__ import annotations

import pytest

from tests.support.core.sasl_broker import OFFERED
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.every_case import for_each
from wire.sasl import authenticate_reply, handshake_reply


def wire_in_custody() -> Wire:
    """Return a session of a Sluice that authenticates itself."""
    engine = make_engine()
    engine.has_custody = True
    return Wire(engine)


@pytest.mark.parametrize("mechanism", OFFERED)
@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
def test_a_handshake_is_refused_as_by_a_listener_without_sasl(mechanism: str, chunk: int) -> None:
    """The error is ILLEGAL_SASL_STATE, and no mechanism is offered."""
    wire = wire_in_custody().client(sasl.handshake(5, mechanism), chunk)
    assert wire.to_broker == b""
    assert wire.to_client[:8] == f.reply(5, bytes(6))[:8]
    assert handshake_reply(wire.to_client[8:]) == (sasl.ILLEGAL_STATE, ())


@for_each(range(3))
def test_a_token_is_refused_in_every_version(version: int) -> None:
    """The token goes nowhere; the connection stays, and its user is unchanged."""
    wire = wire_in_custody().client(sasl.authenticate(5, sasl.plain("a", "b"), version))
    assert wire.to_broker == b""
    body = wire.to_client[8 + (version >= 2) :]
    assert authenticate_reply(body, version).error_code == sasl.ILLEGAL_STATE
    assert wire.session.peer.user == "ANONYMOUS"
    wire.client(f.heartbeat(6)).broker(f.heartbeat_reply(6))
    assert wire.to_client.endswith(f.heartbeat_reply(6))
    wire.release()
    assert wire.held_bytes == 0


def test_a_refusal_waits_for_the_replies_before_it() -> None:
    """Replies leave in request order."""
    wire = wire_in_custody().client(f.heartbeat(1) + sasl.handshake(2, "PLAIN") + f.heartbeat(3))
    assert wire.to_broker == f.heartbeat(1) + f.heartbeat(3)
    assert wire.to_client == b""
    wire.broker(f.heartbeat_reply(1) + f.heartbeat_reply(3))
    refused = f.reply(2, b"\0\x22" + bytes(4))
    assert wire.to_client == f.heartbeat_reply(1) + refused + f.heartbeat_reply(3)


def test_a_malformed_sasl_request_harms_nothing() -> None:
    """Its body is not read, so the refusal is the same."""
    wire = wire_in_custody().client(f.request(f.SASL_HANDSHAKE, 1, 7, b"\x7f\xff"))
    assert handshake_reply(wire.to_client[8:]).error_code == sasl.ILLEGAL_STATE
    assert not wire.session.ending
