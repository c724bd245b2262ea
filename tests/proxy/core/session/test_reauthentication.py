"""Sluice's own authentication is renewed on a live connection, between the client's requests and replies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.api import Hold, Throttle
from proxy.core.session.channel import Mute
from proxy.core.session.reauthentication import MAX_LIFETIME_MS
from tests.support.core.holding import Holding
from tests.support.core.renewed import ADDRESS, LIFETIME_MS, FakeCustodian, RenewedLine
from tests.support.core.sasl_broker import SaslBroker
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f


@pytest.mark.parametrize(("part", "at_ms"), [(0.0, 8500), (0.5, 9000), (1.0, 9500)])
def test_a_lifetime_is_renewed_before_it_ends(part: float, at_ms: int) -> None:
    """It happens at 85 to 95 %, as in Kafka's client, and again in the lifetime that the broker then gives."""
    shell = FakeCustodian()
    shell.part = part
    line = RenewedLine(shell)
    line.pass_time(at_ms - 1).serve()
    assert line.keys == []
    for round_ in range(1, 6):
        line.pass_time(1).serve()
        assert line.sasl.authenticated == round_
        assert line.keys == [f.SASL_HANDSHAKE, f.SASL_AUTHENTICATE] * round_
        line.pass_time(at_ms - 1).serve()
        assert line.sasl.authenticated == round_
    assert not line.wire.session.ended
    assert line.wire.to_client == b""


@pytest.mark.parametrize("lifetime_ms", [0, -1])
def test_a_broker_that_gives_no_lifetime_any_more_ends_the_renewals(lifetime_ms: int) -> None:
    """The connection stays; without a first lifetime there is no timer at all."""
    wire = Wire()
    wire.engine.renew(wire.session, lifetime_ms, ADDRESS, FakeCustodian(), 0)
    assert wire.engine.timers.size == 0
    line = RenewedLine(broker=SaslBroker(lifetime_ms=max(lifetime_ms, 0)))
    line.pass_time(8500).serve()
    assert line.sasl.authenticated == 1
    assert line.wire.engine.timers.next_ms() is None
    assert line.pass_time(100 * LIFETIME_MS).serve().sasl.authenticated == 1
    assert not line.wire.session.ended


def test_an_endless_lifetime_is_renewed_weekly() -> None:
    """A broker may say 2^63 - 1; a tiny lifetime is renewed once a second at most."""
    line = RenewedLine(broker=SaslBroker(lifetime_ms=2**63 - 1))
    line.pass_time(LIFETIME_MS).serve().pass_time(MAX_LIFETIME_MS).serve()
    assert line.sasl.authenticated == 2
    line = RenewedLine(broker=SaslBroker(lifetime_ms=1))
    line.pass_time(LIFETIME_MS).serve()
    for _ in range(3000):
        line.pass_time(1).serve()
    assert line.sasl.authenticated == 4


def test_replies_in_flight_come_first_and_new_requests_wait() -> None:
    """The client is muted from our first question until success, and no reply of ours reaches it."""
    line = RenewedLine()
    wire = line.wire
    wire.client(f.heartbeat(1) + f.heartbeat(2))
    line.pass_time(8500)
    assert line.muted & Mute.UPSTREAM_REAUTH
    wire.client(f.heartbeat(3))
    assert wire.unread == f.heartbeat(3)
    line.serve()
    handshake = [f.SASL_HANDSHAKE, f.SASL_AUTHENTICATE]
    assert line.keys == [f.HEARTBEAT, f.HEARTBEAT, *handshake, f.HEARTBEAT]
    assert wire.to_client == b"".join(f.heartbeat_reply(each) for each in (1, 2, 3))
    assert line.muted == 0
    wire.release()
    assert wire.held_bytes == 0
    assert wire.engine.timers.next_ms() is None


@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=12),
    cut=st.integers(1, 400),
    due=st.integers(0, 12),
    chunk=st.integers(1, 100),
    mechanism=st.sampled_from(("PLAIN", "SCRAM-SHA-512")),
)
def test_pipelined_requests_are_never_mixed_with_ours(
    sizes: list[int], cut: int, due: int, chunk: int, mechanism: str
) -> None:
    """Wherever reads end and whenever it is due: all requests reach the broker whole and in order, and all replies
    the client; between SaslHandshake and the last SaslAuthenticate there is no other request.
    """
    line = RenewedLine(FakeCustodian(mechanism))
    stream = b"".join(f.heartbeat(n, pad=size) for n, size in enumerate(sizes))
    parts = [stream[at : at + cut] for at in range(0, len(stream), cut)]
    for place, part in enumerate(parts):
        if place == due:
            line.pass_time(8500)
        line.wire.client(part)
        if place % 3 == 2:
            line.serve(chunk)
    line.pass_time(8500)
    line.serve(chunk)
    assert line.wire.to_client == b"".join(f.heartbeat_reply(n) for n in range(len(sizes)))
    assert line.sasl.authenticated >= 1
    theirs = [key for key in line.keys if key == f.HEARTBEAT]
    assert len(theirs) == len(sizes)
    tokens = 1 if mechanism == "PLAIN" else 2
    at = line.keys.index(f.SASL_HANDSHAKE)
    assert line.keys[at + 1 : at + 1 + tokens] == [f.SASL_AUTHENTICATE] * tokens
    assert not line.wire.session.ended


def test_a_request_that_streams_is_finished_first() -> None:
    """Our question stands after its last byte; the next request waits."""
    line = RenewedLine()
    long = f.heartbeat(1, pad=5000)
    line.wire.client(long[:1000])
    line.pass_time(8500)
    line.wire.client(long[1000:] + f.heartbeat(2))
    assert line.wire.to_broker.startswith(long)
    line.serve()
    handshake = [f.SASL_HANDSHAKE, f.SASL_AUTHENTICATE]
    assert line.keys == [f.HEARTBEAT, *handshake, f.HEARTBEAT]


def test_a_broker_that_is_busy_with_a_long_request_is_waited_for() -> None:
    """A join of a group may take minutes. The broker reads our question after it, so the lifetime is not judged."""
    line = RenewedLine()
    line.wire.client(f.heartbeat(1))
    line.pass_time(60 * LIFETIME_MS)
    assert not line.wire.session.ending
    line.serve()
    assert line.sasl.authenticated == 1
    assert line.muted == 0


def test_keys_are_derived_in_a_thread_while_the_client_waits() -> None:
    """The next token is sent when the work is done, and only once; the second renewal finds the key."""
    line = RenewedLine(FakeCustodian("SCRAM-SHA-256"))
    line.shell.busy = True
    line.pass_time(8500).serve()
    line.wire.client(f.heartbeat(1))
    assert line.keys == [f.SASL_HANDSHAKE, f.SASL_AUTHENTICATE]
    assert line.muted & Mute.UPSTREAM_REAUTH
    line.shell.compute()
    line.wire.advance(0)
    line.serve()
    assert line.sasl.authenticated == 1
    assert line.wire.to_client == f.heartbeat_reply(1)
    line.pass_time(8500).serve()
    assert line.sasl.authenticated == 2
    assert line.shell.waiting == []


def test_a_held_request_waits_for_the_renewal_and_does_not_hinder_it() -> None:
    """It has not begun; woken in between, it is forwarded after success."""
    line = RenewedLine(policies=(Holding(Hold(60_000, "key")),))
    line.wire.client(f.heartbeat(1))
    line.pass_time(8500)
    assert line.muted & Mute.HELD
    assert line.wire.wake("key") == 1
    assert line.requests()[-1][4:6] == b"\0\x11"  # SaslHandshake, and no heartbeat
    line.read_bytes = 0
    line.serve()
    assert line.keys == [f.SASL_HANDSHAKE, f.SASL_AUTHENTICATE, f.HEARTBEAT]
    assert line.wire.to_client == f.heartbeat_reply(1)


def test_a_throttle_and_a_renewal_end_each_for_itself() -> None:
    """The client is read when both are over."""
    line = RenewedLine(policies=(Holding(Throttle(9000)),))
    line.wire.client(f.heartbeat(1))
    line.serve()
    line.pass_time(8500).serve()
    assert line.sasl.authenticated == 1
    assert line.muted == Mute.THROTTLED
    line.pass_time(500)
    assert line.muted == 0
