"""A renewal of Sluice's own authentication that cannot succeed, and sessions that end during one."""

import struct

import pytest

from proxy.core.errors import CloseReason
from proxy.core.session.exchange import MAX_PROXY_REPLY_BYTES
from proxy.core.session.reauthentication import ANSWER_MS
from tests.support.core.renewed import ADDRESS, LIFETIME_MS, FakeCustodian, RenewedLine
from tests.support.core.sasl_broker import SaslBroker
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.every_case import for_each


def test_a_request_that_streams_for_ever_ends_the_session_at_the_end_of_the_lifetime() -> None:
    """Earlier requests are still answered; the half request is given up, because the broker would refuse it."""
    line = RenewedLine()
    line.wire.client(f.heartbeat(1) + f.heartbeat(2, pad=5000)[:1000])
    line.pass_time(LIFETIME_MS - 1)
    assert not line.wire.session.ending
    line.pass_time(1)
    assert line.wire.session.reason is CloseReason.UPSTREAM_SESSION_EXPIRED
    assert not line.wire.session.ended
    line.wire.broker(f.heartbeat_reply(1))
    assert line.wire.to_client == f.heartbeat_reply(1)
    assert line.wire.session.ended
    assert "bytes were left" in line.wire.session.detail
    assert sasl.handshake(0, "PLAIN")[4:6] not in line.wire.to_broker[-30:]


def test_a_broker_that_never_answers_ends_at_the_request_timeout() -> None:
    """Our question is owed an answer as every other request."""
    line = RenewedLine(request_timeout_ms=30_000)
    line.pass_time(8500)
    for _ in range(32):
        line.pass_time(1000)
    assert line.wire.session.reason is CloseReason.UPSTREAM_REQUEST_TIMEOUT


@for_each(range(3))
def test_without_a_request_timeout_a_renewal_has_a_deadline_of_its_own(answered: int) -> None:
    """Otherwise its client stays muted for ever. A broker that is busy with an earlier request is waited for."""
    line = RenewedLine(FakeCustodian("SCRAM-SHA-256"), request_timeout_ms=0)
    line.wire.client(f.heartbeat(1))
    line.pass_time(8500)
    for _ in range(10):
        line.pass_time(ANSWER_MS)
    assert not line.wire.session.ending
    line.wire.broker(f.heartbeat_reply(1))
    for _ in range(answered):
        line.wire.broker(line.sasl.answer(line.requests()[-1]))
    line.pass_time(ANSWER_MS - 1)
    assert not line.wire.session.ending
    for _ in range(4):
        line.pass_time(ANSWER_MS // 2)
    assert line.wire.session.reason is CloseReason.UPSTREAM_REQUEST_TIMEOUT
    assert line.wire.session.detail == f"no answer to the renewed authentication at {ADDRESS}"


def test_an_answer_that_trickles_does_not_extend_the_deadline() -> None:
    """A byte now and then is no answer."""
    line = RenewedLine(request_timeout_ms=0)
    line.pass_time(8500)
    (frame,) = line.requests()
    for byte in line.sasl.answer(frame)[:12]:
        line.wire.broker(bytes([byte]))
        line.pass_time(ANSWER_MS // 5)
    assert line.wire.session.reason is CloseReason.UPSTREAM_REQUEST_TIMEOUT


def test_missing_credentials_are_asked_for_again_until_the_lifetime_ends() -> None:
    """Meanwhile the session works; a token that comes in time saves it."""
    line = RenewedLine()
    line.shell.missing = "the token endpoint does not answer"
    line.pass_time(8500)
    line.wire.client(f.heartbeat(1))
    line.serve()
    assert line.wire.to_client == f.heartbeat_reply(1)
    line.shell.missing = ""
    line.pass_time(1000).serve()
    assert line.sasl.authenticated == 1
    line.shell.missing = "the token endpoint does not answer"
    for _ in range(10):
        line.pass_time(1000).serve()
    assert line.wire.session.reason is CloseReason.UPSTREAM_SESSION_EXPIRED
    assert "the token endpoint does not answer" in line.wire.session.detail
    assert line.shell.prepared <= 6


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_refusal_ends_the_session_after_the_replies_before_it(mechanism: str) -> None:
    """The broker closes, too. The custodian is told, so that other sessions wait."""
    line = RenewedLine(FakeCustodian(mechanism, "wr0ng"))
    line.wire.client(f.heartbeat(1))
    line.pass_time(8500).serve()
    assert line.wire.to_client == f.heartbeat_reply(1)
    assert line.wire.session.reason is CloseReason.UPSTREAM_AUTHENTICATION_FAILED
    assert line.wire.session.ended
    assert line.shell.refused == [ADDRESS]
    assert "wr0ng" not in line.wire.session.detail
    line.wire.release()
    assert line.wire.held_bytes == 0
    assert line.wire.engine.timers.next_ms() is None


def test_a_lying_reply_is_a_fault_of_the_broker() -> None:
    """A malformed reply ends the session and is no refusal of the credentials."""
    line = RenewedLine(broker=SaslBroker(lies={0: f.reply(2**31 - 8, b"\0")}))
    line.pass_time(8500).serve()
    assert line.wire.session.reason is CloseReason.BROKER_PROTOCOL
    assert line.shell.refused == []


@pytest.mark.parametrize("size", [MAX_PROXY_REPLY_BYTES + 1, 2**31 - 1])
def test_a_huge_reply_to_our_question_is_a_fault_of_the_broker(size: int) -> None:
    """It is refused before its bytes are kept."""
    line = RenewedLine()
    line.pass_time(8500)
    line.wire.broker(struct.pack(">ii", size, 2**31 - 8))
    assert line.wire.session.reason is CloseReason.BROKER_PROTOCOL
    line.wire.release()
    assert line.wire.held_bytes == 0


def test_a_session_that_ends_while_a_key_is_derived_is_left_alone() -> None:
    """The work ends later, and finds nothing to continue."""
    line = RenewedLine(FakeCustodian("SCRAM-SHA-256"))
    line.shell.busy = True
    line.pass_time(8500).serve()
    line.wire.session.end(CloseReason.OPERATOR, "", line.wire.now_ms)
    line.wire.release()
    line.shell.compute()
    assert line.wire.held_bytes == 0
    assert line.wire.engine.timers.next_ms() is None


def test_a_drain_during_a_renewal_ends_the_session() -> None:
    """No second question is sent; the replies before are delivered."""
    line = RenewedLine()
    line.wire.client(f.heartbeat(1))
    line.pass_time(8500)
    line.wire.drain()
    line.serve()
    assert line.wire.to_client == f.heartbeat_reply(1)
    assert line.wire.session.ended
    assert line.wire.session.reason is CloseReason.DRAINED
    assert line.keys == [f.HEARTBEAT, f.SASL_HANDSHAKE]


def test_a_session_that_drains_is_not_renewed() -> None:
    """It ends soon, and its broker accepts what it has been sent."""
    line = RenewedLine()
    line.wire.client(f.heartbeat(1))
    line.wire.drain()
    line.pass_time(LIFETIME_MS)
    assert line.shell.prepared == 0


@for_each(range(3))
def test_a_lost_connection_during_a_renewal_leaves_nothing(steps: int) -> None:
    """Memory, timers and questions are given back whenever a side disappears."""
    line = RenewedLine()
    line.wire.client(f.heartbeat(1))
    line.pass_time(8500)
    for frame in line.requests()[:steps]:
        key = struct.unpack_from(">h", frame, 4)[0]
        ours = key != f.HEARTBEAT
        line.wire.broker(line.sasl.answer(frame) if ours else f.heartbeat_reply(1))
    line.wire.session.broker_gone(CloseReason.BROKER_RESET, line.wire.now_ms)
    line.wire.release()
    assert line.wire.held_bytes == 0
    assert line.wire.engine.timers.next_ms() is None
    assert line.wire.watcher.internal == []
