"""The principal of OAUTHBEARER: a claim of the token, once the broker has accepted it."""

from __future__ import annotations

import pytest

from proxy.core.errors import PrincipalChangedError
from proxy.core.session.identity import UNKNOWN, Identity, Principal
from tests.support.messages.sasl import bearer, unsigned_token

NAMELESS = Principal(UNKNOWN, "unknown")


def shaken(claim: str = "sub") -> Identity:
    identity = Identity(claim)
    identity.on_handshake("OAUTHBEARER")
    identity.on_handshake_reply(0)
    return identity


def say(identity: Identity, token: bytes, answer: bytes = b"", error: int = 0) -> Principal | None:
    identity.on_token(token)
    return identity.on_token_reply(error, answer)


def of(name: str) -> bytes:
    return bearer(unsigned_token(name, 60))


def test_the_claim_counts_after_the_brokers_empty_success() -> None:
    """Not before, and not with an error in the success reply, which OAUTHBEARER sends for a bad token."""
    assert say(shaken(), of("alice")) == Principal("alice", "sasl")
    refused = shaken()
    assert say(refused, of("alice"), b'{"status":"invalid_token"}') is None
    assert say(refused, b"\x01", b"") is None
    assert say(shaken(), of("alice"), error=58) is None


@pytest.mark.parametrize("token", [bearer("opaque"), b"n,,x", bearer("a.b.c")])
def test_a_token_without_the_claim_is_unknown(token: bytes) -> None:
    """The broker may know the user all the same."""
    assert say(shaken(), token) == NAMELESS


def test_without_a_claim_in_the_settings_no_token_names_a_user() -> None:
    """The users of tokens are then UNKNOWN together."""
    assert say(shaken(""), of("alice")) == NAMELESS


def test_another_authzid_or_a_long_name_is_unknown() -> None:
    """A broker refuses the first, and the second is not kept."""
    token = of("alice").replace(b"n,,", b"n,a=bob,")
    assert say(shaken(), token) == NAMELESS
    assert say(shaken(), of("alice").replace(b"n,,", b"n,a=alice,")) == Principal("alice", "sasl")
    assert say(shaken(), of("x" * 1025)) == NAMELESS


def test_a_renewed_token_keeps_the_user() -> None:
    """A broker that accepts one of another user ends the session (KIP-368)."""
    identity = shaken()
    say(identity, of("alice"))
    for name in ("alice", "bob"):
        identity.on_handshake("OAUTHBEARER")
        identity.on_handshake_reply(0)
        if name == "alice":
            assert say(identity, of(name)) == Principal("alice", "sasl")
        else:
            with pytest.raises(PrincipalChangedError):
                say(identity, of(name))
