"""A session whose client authenticates to Sluice: failures, re-authentication, and how it ends."""

import pytest

from policies.api import Outcome
from proxy.core.auth.sasl_server import FAILURE_DELAY_MS
from proxy.core.auth.stored_users import Users
from proxy.core.errors import CloseReason
from tests.support.core.gated import (
    ALICE,
    LIFETIME_MS,
    SHAKEN,
    Gated,
)
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import plain
from tests.support.shell.sasl_service import OFFERED, credentials, password_of
from wire.sasl import authenticate_body, handshake_body

# --- failure -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["alice", "mallory"])
def test_a_failure_is_answered_late_then_the_connection_is_closed(name: str) -> None:
    """The same for a wrong password and an unknown user. It is counted and reported once, without the password."""
    gated = Gated()
    wire = gated.sign_in(plain(name, "pa55word"))
    assert wire.to_client == SHAKEN
    wire.advance(FAILURE_DELAY_MS - 1)
    assert wire.to_client == SHAKEN
    assert not wire.session.ended
    wire.advance(1)
    assert b"Authentication failed: Invalid username or password" in wire.to_client
    assert wire.session.ended
    assert gated.reason is CloseReason.AUTHENTICATION_FAILED
    assert gated.engine.auth_failures == 1
    (failure,) = wire.watcher.failures
    assert (failure.mechanism, failure.user) == ("PLAIN", name)
    assert "pa55word" not in f"{failure} {wire.session.detail}"
    wire.release()
    why = f"PLAIN, user '{name}': Authentication failed: Invalid username or password"
    assert wire.watcher.closed == [(CloseReason.AUTHENTICATION_FAILED, why)]


def test_nothing_is_read_between_a_failure_and_its_reply() -> None:
    """So a client gets one attempt in this time, on each connection."""
    gated = Gated()
    wire = gated.sign_in(plain("alice", "x"))
    wire.client(sasl.handshake(3, "PLAIN") + sasl.authenticate(4, ALICE))
    wire.advance(FAILURE_DELAY_MS)
    assert wire.session.ended
    assert gated.checker.done == 1
    assert gated.recorder.peers[-1].user == "ANONYMOUS"


def test_a_policy_that_raises_at_the_late_reply_ends_the_connection() -> None:
    """Without a reply. The fault is the policy's, and no timer's: the client is not kept, muted, for ever."""
    gated = Gated()
    wire = gated.sign_in(plain("alice", "x"))
    gated.recorder.judge_reply = lambda _: 1 // 0
    wire.advance(FAILURE_DELAY_MS)
    assert wire.session.ended
    assert gated.reason is CloseReason.POLICY_FAULT
    assert wire.watcher.internal == []
    wire.release()
    assert [outcome for _, outcome in gated.recorder.completed][-1] is Outcome.DISCONNECTED
    assert gated.engine.timers.size == 0


def test_a_mechanism_that_is_not_offered_is_refused_late_too() -> None:
    """The reply names those that are."""
    gated = Gated()
    wire = gated.wire.client(sasl.handshake(1, "GSSAPI"))
    assert wire.to_client == b""
    wire.advance(FAILURE_DELAY_MS)
    assert wire.to_client == f.reply(1, handshake_body(sasl.UNSUPPORTED, OFFERED))
    assert gated.reason is CloseReason.AUTHENTICATION_FAILED


def test_too_many_passwords_at_once_end_the_newest_connection() -> None:
    """Without a reply, because an error would tell a client that its password is wrong."""
    gated = Gated(max_waiting=0)
    wire = gated.sign_in()
    assert wire.session.ended
    assert gated.reason is CloseReason.AUTHENTICATION_OVERLOADED
    assert wire.to_client == SHAKEN


def test_a_password_whose_place_is_given_to_another_address_ends_its_connection() -> None:
    """As if it had been refused at once: without a reply, and the request completes once."""
    gated = Gated()
    wire = gated.wire
    wire.client(sasl.handshake(1, "PLAIN") + sasl.authenticate(2, ALICE))
    gated.checker.drop_all()
    wire.give_turns()
    assert wire.session.ended
    assert gated.reason is CloseReason.AUTHENTICATION_OVERLOADED
    assert wire.to_client == SHAKEN
    assert [outcome for _, outcome in gated.recorder.completed][-1] is Outcome.DISCONNECTED
    assert len(gated.recorder.completed) == len(gated.recorder.asked) == 2
    assert gated.engine.auth_failures == 0


@pytest.mark.parametrize("way", ["gone", "lost", "drained"])
@pytest.mark.parametrize("password", ["alice-secret", "x"])
def test_a_session_that_ends_meanwhile_is_forgotten(way: str, password: str) -> None:
    """The request completes once, and the result of the thread goes nowhere."""
    gated = Gated()
    wire = gated.wire
    wire.client(sasl.handshake(1, "PLAIN") + sasl.authenticate(2, plain("alice", password)))
    if way == "gone":
        wire.session.client_gone(wire.now_ms)
    elif way == "lost":
        wire.session.client_lost(wire.now_ms)
    else:
        wire.drain()
    wire.settle()
    assert wire.session.ended
    wire.release()
    gated.checker.run_all()
    wire.advance(FAILURE_DELAY_MS)
    assert wire.to_client == SHAKEN
    assert [outcome for _, outcome in gated.recorder.completed][-1] is Outcome.DISCONNECTED
    assert len(gated.recorder.completed) == len(gated.recorder.asked) == 2
    assert gated.engine.timers.size == 0


# --- re-authentication -------------------------------------------------------------------------


def test_a_re_authentication_is_answered_in_its_turn() -> None:
    """Its replies wait for the broker's replies to earlier requests."""
    gated = Gated(LIFETIME_MS)
    wire = gated.sign_in()
    before = wire.to_client
    wire.advance(LIFETIME_MS // 2)
    wire.client(f.heartbeat(5) + sasl.handshake(1, "PLAIN") + sasl.authenticate(2, ALICE))
    assert wire.to_client == before
    wire.broker(f.heartbeat_reply(5))
    accepted = f.reply(2, authenticate_body(1, b"", LIFETIME_MS))
    assert wire.to_client == before + f.heartbeat_reply(5) + SHAKEN + accepted
    assert gated.speaker() == ("alice", "sasl")


def test_a_client_that_re_authenticates_stays_connected() -> None:
    """For ten lifetimes, with requests in between; there is one timer at a time."""
    gated = Gated(LIFETIME_MS)
    wire = gated.sign_in()
    for _ in range(20):
        wire.advance(LIFETIME_MS // 2)
        assert gated.speaker() == ("alice", "sasl")
        gated.sign_in()
        assert gated.engine.timers.size == 1
    assert gated.reason is None


def test_a_client_past_its_lifetime_is_closed_at_its_next_request() -> None:
    """Not before: it may still authenticate again. A request in time passes."""
    gated = Gated(LIFETIME_MS)
    wire = gated.sign_in()
    wire.advance(LIFETIME_MS - 1)
    assert gated.speaker() == ("alice", "sasl")
    wire.advance(LIFETIME_MS)
    assert gated.reason is None
    gated.sign_in()
    assert gated.speaker() == ("alice", "sasl")
    wire.advance(LIFETIME_MS)
    sent = wire.to_broker
    wire.client(f.heartbeat(10))
    assert gated.reason is CloseReason.SESSION_EXPIRED
    assert wire.to_broker == sent


def test_a_re_authentication_keeps_the_user_or_ends_the_connection() -> None:
    """Another user, another mechanism and a wrong password each end it, and none changes the user."""
    other = sasl.handshake(1, "PLAIN") + sasl.authenticate(2, plain("bob", password_of("bob")))
    wrong = sasl.handshake(1, "PLAIN") + sasl.authenticate(2, plain("alice", "x"))
    scram = sasl.handshake(1, "SCRAM-SHA-256") + sasl.authenticate(2, b"n,,n=alice,r=x")
    for again, reason in (
        (other, CloseReason.AUTHENTICATION_FAILED),
        (wrong, CloseReason.AUTHENTICATION_FAILED),
        (scram, CloseReason.PRINCIPAL_CHANGED),
    ):
        gated = Gated(LIFETIME_MS)
        gated.sign_in().advance(2_000)
        gated.wire.client(again + f.heartbeat(9))
        gated.verify().advance(FAILURE_DELAY_MS)
        assert gated.reason is reason
        assert {peer.user for peer in gated.recorder.peers} == {"ANONYMOUS", "alice"}
        assert gated.wire.to_broker == b""


# --- users -------------------------------------------------------------------------------------


def test_a_removed_user_is_disconnected_and_others_are_not() -> None:
    """Its connections end at once; those that are not authenticated stay."""
    gated = Gated()
    gated.sign_in()
    stranger = Wire(gated.engine)
    removed = gated.engine.disconnect_removed_users(Users(credentials(("bob",))))
    assert removed == 1
    assert gated.reason is CloseReason.USER_REMOVED
    assert stranger.session.reason is None
    assert gated.engine.disconnect_removed_users(Users(credentials())) == 0
