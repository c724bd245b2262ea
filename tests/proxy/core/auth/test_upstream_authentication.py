"""Sluice's own authentication with brokers that are honest, and with brokers that lie."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.auth import scram
from proxy.core.auth.mechanisms import (
    OAuthBearerClient,
    PlainClient,
    SaltedKeys,
    SaslClient,
    ScramClient,
)
from proxy.core.auth.upstream_authentication import (
    FIRST_CORRELATION_ID,
    MAX_REPLY_BYTES,
    MAX_STEPS,
    UpstreamAuthentication,
)
from proxy.core.errors import BrokerProtocolError, SessionFault, UpstreamAuthenticationError
from tests.support.core.sasl_broker import OFFERED, TOKEN, SaslBroker
from tests.support.messages import frames as f
from tests.support.messages import sasl

SECRET = "s3cret"  # noqa: S105 - the broker's
NONCE = "nonce-of-the-client"
SECOND, THIRD = FIRST_CORRELATION_ID + 1, FIRST_CORRELATION_ID + 2


def authentication(mechanism: str, secret: str = "") -> UpstreamAuthentication:
    """Return an authentication with the secret that the broker knows, or another."""
    client: SaslClient
    if mechanism == "PLAIN":
        client = PlainClient("sluice", lambda: secret or SECRET)
    elif mechanism == "OAUTHBEARER":
        client = OAuthBearerClient(lambda: secret or TOKEN)
    else:
        keys = SaltedKeys(scram.MECHANISMS[mechanism], lambda: secret or SECRET)
        client = ScramClient("sluice", keys, NONCE)
    return UpstreamAuthentication(client)


def run(ours: UpstreamAuthentication, broker: SaslBroker, chunk: int = 1 << 20) -> None:
    """Let both speak until the authentication is done; replies arrive in chunks."""
    while not ours.done:
        if ours.work is not None:
            ours.work()
            ours.resume()
            continue
        reply = broker.answer(ours.take_request())
        for at in range(0, len(reply), chunk):
            ours.feed(reply[at : at + chunk])


def challenge(token: bytes, correlation_id: int = SECOND) -> bytes:
    """Return a success reply with this token."""
    return f.reply(correlation_id, sasl.authenticate_body(token))


@pytest.mark.parametrize("mechanism", OFFERED)
@given(chunk=st.integers(1, 200), lifetime_ms=st.integers(0, 2**63 - 1))
def test_an_honest_broker_accepts_every_mechanism(
    mechanism: str, chunk: int, lifetime_ms: int
) -> None:
    """However its replies are cut; the lifetime is the one that it says."""
    broker = SaslBroker(lifetime_ms=lifetime_ms)
    ours = authentication(mechanism)
    run(ours, broker, chunk)
    assert broker.authenticated == 1
    assert ours.session_lifetime_ms == lifetime_ms
    assert ours.request is None
    keys = [key for key, _ in broker.heard]
    assert keys[0] == f.SASL_HANDSHAKE
    assert set(keys[1:]) == {f.SASL_AUTHENTICATE}
    ids = [correlation_id for _, correlation_id in broker.heard]
    assert ids == list(range(FIRST_CORRELATION_ID, FIRST_CORRELATION_ID + len(ids)))


@pytest.mark.parametrize("mechanism", OFFERED)
def test_a_wrong_secret_is_reported_without_the_secret(mechanism: str) -> None:
    """The error names the mechanism and the broker's error, and nothing that the broker could have put into words."""
    broker = SaslBroker()
    with pytest.raises(UpstreamAuthenticationError, match=mechanism) as caught:
        run(authentication(mechanism, "wr0ng-canary"), broker)
    assert broker.refused == 1
    assert "wr0ng-canary" not in str(caught.value)
    why = "invalid_token" if mechanism == "OAUTHBEARER" else "SASL_AUTHENTICATION_FAILED"
    assert why in str(caught.value)


def test_the_error_for_a_mechanism_that_is_not_enabled_lists_those_that_are() -> None:
    """Only names of the right form are shown: a broker could put anything there."""
    broker = SaslBroker(offered=("GSSAPI", "SCRAM-SHA-512", "s3cret", "X" * 300))
    with pytest.raises(UpstreamAuthenticationError) as caught:
        run(authentication("PLAIN"), broker)
    words = "the broker has not enabled PLAIN; it offers: GSSAPI, SCRAM-SHA-512"
    assert str(caught.value) == words


def test_a_listener_without_sasl_is_named_as_such() -> None:
    """Kafka's PLAINTEXT listener answers a SaslHandshake with ILLEGAL_SASL_STATE."""
    lie = f.reply(FIRST_CORRELATION_ID, struct.pack(">hi", sasl.ILLEGAL_STATE, 0))
    with pytest.raises(UpstreamAuthenticationError, match="does not use SASL"):
        run(authentication("PLAIN"), SaslBroker(lies={0: lie}))


HANDSHAKE_OK = sasl.handshake_reply(FIRST_CORRELATION_ID)
SCRAM_LIES = {
    "foreign nonce": b"r=another-nonce-XYZ,s=c2FsdA==,i=4096",
    "2^31 iterations": f"r={NONCE}XYZ,s=c2FsdA==,i=2147483648".encode(),
    "a signature at once": b"v=AAAA",
    "not UTF-8": b"\xff\xfe",
}


@pytest.mark.parametrize("token", SCRAM_LIES.values(), ids=SCRAM_LIES.keys())
def test_a_lying_challenge_ends_scram(token: bytes) -> None:
    """No proof is made for it, and no key derived."""
    broker = SaslBroker(lies={1: challenge(token)})
    ours = authentication("SCRAM-SHA-256")
    with pytest.raises(UpstreamAuthenticationError):
        run(ours, broker)
    assert (ours.request, ours.work, ours.done) == (None, None, False)


@pytest.mark.parametrize("token", [b"", b"v=AAAA", b"v=" + b"A" * 43 + b"=", b"e=other"])
def test_success_without_the_right_signature_is_a_failure(token: bytes) -> None:
    """A broker that does not know the password cannot make us believe in it."""
    broker = SaslBroker(lies={2: challenge(token, THIRD)})
    ours = authentication("SCRAM-SHA-512")
    with pytest.raises(UpstreamAuthenticationError):
        run(ours, broker)
    assert not ours.done


LIES = {
    "truncated handshake": (0, f.reply(FIRST_CORRELATION_ID, b"\0")),
    "handshake without names": (0, f.reply(FIRST_CORRELATION_ID, b"\0\0\0\0\0\5")),
    "2^31 - 1 names": (0, f.reply(FIRST_CORRELATION_ID, b"\0\0\x7f\xff\xff\xff")),
    "null names": (0, f.reply(FIRST_CORRELATION_ID, b"\0\0\xff\xff\xff\xff")),
    "another id": (0, sasl.handshake_reply(7)),
    "the first id again": (1, challenge(b"")[:4] + HANDSHAKE_OK[4:8] + challenge(b"")[8:]),
    "truncated token": (1, f.reply(SECOND, sasl.authenticate_body(b"abc")[:-9])),
    "null token": (1, f.reply(SECOND, b"\0\0\xff\xff\xff\xff\xff\xff" + bytes(8))),
    "no lifetime": (1, f.reply(SECOND, sasl.authenticate_body(b"", version=0))),
    "two replies": (0, HANDSHAKE_OK * 2),
    "one byte more": (1, challenge(b"") + b"\0"),
    "a frame of 3 bytes": (0, struct.pack(">i", 3) + b"abc"),
    "a negative size": (0, struct.pack(">i", -1)),
    "a huge size": (0, struct.pack(">i", 2**31 - 1)),
    "one byte too many": (0, struct.pack(">i", MAX_REPLY_BYTES + 1)),
    "HTTP": (0, b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "TLS": (0, b"\x15\x03\x01\x00\x02\x02\x0a"),
}


@pytest.mark.parametrize(("place", "lie"), LIES.values(), ids=LIES.keys())
@given(chunk=st.integers(1, 64))
def test_a_lying_broker_is_a_fault_of_the_broker(place: int, lie: bytes, chunk: int) -> None:
    """Malformed, foreign, unexpected and oversized replies end the attempt, however they are cut."""
    ours = authentication("PLAIN")
    with pytest.raises(BrokerProtocolError):
        run(ours, SaslBroker(lies={place: lie}), chunk)


def test_bytes_before_the_first_question_are_a_fault_of_the_broker() -> None:
    """A server that speaks first is no Kafka broker."""
    with pytest.raises(BrokerProtocolError, match="no SASL reply was due"):
        authentication("PLAIN").feed(b"220 smtp")


def test_an_endless_exchange_is_cut() -> None:
    """A broker that answers each token with another challenge gets a bounded number of them."""
    ours = UpstreamAuthentication(_Endless())
    broker = SaslBroker()
    ours.on_reply(broker.answer(ours.take_request()))
    for _ in range(MAX_STEPS - 1):
        ours.take_request()
        ours.on_reply(challenge(b"more", ours.correlation_id))
    with pytest.raises(BrokerProtocolError, match="does not end"):
        ours.on_reply(challenge(b"more", ours.correlation_id))
    assert ours.correlation_id < 2**31


class _Endless(OAuthBearerClient):
    def __init__(self) -> None:
        super().__init__(lambda: TOKEN)

    def evaluate(self, challenge: bytes) -> bytes | None:
        return challenge


@given(st.lists(st.binary(max_size=40), max_size=6), st.sampled_from(OFFERED))
def test_any_bytes_end_in_a_fault_or_wait_for_more(chunks: list[bytes], mechanism: str) -> None:
    """No bytes of a broker raise anything but a fault that ends one connection."""
    ours = authentication(mechanism)
    ours.take_request()
    with suppress(SessionFault):
        for chunk in chunks:
            ours.feed(chunk)
    assert not ours.done


@given(st.binary(max_size=60), st.sampled_from(OFFERED), st.integers(0, 2))
def test_any_token_of_a_broker_ends_in_a_fault_or_in_success(
    token: bytes, mechanism: str, code: int
) -> None:
    """Framed well and meaningless inside: the mechanisms read it, and SCRAM never succeeds."""
    ours = authentication(mechanism)
    ours.take_request()
    ours.on_reply(HANDSHAKE_OK)
    ours.take_request()
    with suppress(SessionFault):
        ours.on_reply(f.reply(SECOND, sasl.authenticate_body(token, code)))
    assert not ours.done or (code == 0 and not mechanism.startswith("SCRAM"))
