"""T31: a token that was made or changed by the client, is for another service, or is over.

Each goes through the listener of a session with real keys: none gives a user, and no byte after it reaches the broker.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives import serialization
from jwt import PyJWS
from jwt.algorithms import HMACAlgorithm

from proxy.core.auth.bearer_tokens import BearerTokens
from proxy.core.auth.principal_mapping import PrincipalMapper
from proxy.core.auth.sasl_server import FAILURE_DELAY_MS
from proxy.core.errors import CloseReason
from proxy.tokens.claims import ClaimRules
from proxy.tokens.key_set import KeySet
from proxy.tokens.token_check import SignedCheck
from tests.support.core.gated import Gated
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import bearer
from tests.support.shell.token_issuer import (
    AUDIENCE,
    ISSUER,
    claims_of,
    jwks,
    part,
    private_key,
    public_jwk,
    signed,
)

KIDS = ("RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA")
SIGNATURE_BYTES = {"RS256": 256, "PS256": 256, "ES256": 64, "ES384": 96, "ES512": 132, "EdDSA": 64}
NOW = int(time.time())


class Keys:
    """Keys that do not change."""

    revision = 1
    loaded_ms = failures = 0

    def __init__(self) -> None:
        self._keys = KeySet(jwks(*KIDS), KIDS)
        self._jws = PyJWS(KIDS)
        self._rules = ClaimRules(
            ISSUER, frozenset({AUDIENCE}), "sub", PrincipalMapper(("DEFAULT",)), "groups"
        )

    def check_of(self, token: bytes) -> SignedCheck:
        """See TokenKeys."""
        return SignedCheck(token, self._keys, self._jws, self._rules)

    def try_renew(self, then: object) -> bool:
        """See TokenKeys."""
        return False


def gate() -> Gated:
    """Return a session whose client must show a token, now."""
    made = Gated()
    server = made.engine.sasl_server
    assert server is not None
    server.tokens = BearerTokens(b"key", Keys(), made.checker.submit, 30_000)
    server.mechanisms = ("OAUTHBEARER",)
    made.wire.advance(NOW * 1000 - made.wire.now_ms)
    return made


def forged() -> Iterator[tuple[str, bytes]]:
    """Yield a name and a token for each trick."""
    root = part(claims_of("root"))
    for kid in KIDS:
        head, claims, signature = signed(kid).split(b".")
        yield f"{kid}: another user", b".".join((head, root, signature))
        yield f"{kid}: no signature", b".".join((head, root, b""))
        zero = part(bytes(SIGNATURE_BYTES[kid]))
        yield f"{kid}: a signature of zeros", b".".join((head, root, zero))
        yield f"{kid}: a signature of ones", b".".join((head, root, part(b"\x01" * len(zero))))
        yield f"{kid}: a stranger's key", signed(f"{kid}-stranger", {"kid": kid})
        jwk = public_jwk(f"{kid}-stranger")
        yield f"{kid}: its own key", signed(f"{kid}-stranger", {"kid": kid, "jwk": jwk})
        jku = {"kid": kid, "jku": "https://evil.test/keys", "x5u": "https://evil.test/cert"}
        yield f"{kid}: its own address", signed(f"{kid}-stranger", dict(jku))
        for other in (*KIDS, "none", "None", "HS256"):
            if other != kid:
                named = part({"alg": other, "kid": kid})
                yield f"{kid}: said to be {other}", b".".join((named, claims, signature))
        for name, secret in secrets_of(kid):
            text = part({"alg": "HS256", "kid": kid}) + b"." + root
            mac = HMACAlgorithm(HMACAlgorithm.SHA256).sign(text, secret)
            yield f"{kid}: HMAC by its {name}", text + b"." + part(mac)
    for name, value in (
        ("iss", "https://idp.test.evil"),
        ("iss", None),
        ("aud", "other"),
        ("aud", None),
        ("exp", NOW - 31),
        ("exp", None),
        ("nbf", NOW + 60),
        ("iat", NOW + 60),
        ("sub", None),
        ("sub", ""),
        ("groups", [{"admin": True}]),
    ):
        yield f"{name}: {value!r}", signed("ES256", **{name: value})
    yield "unsigned", part({"alg": "none"}) + b"." + root + b"."
    yield "too long", signed("ES256", padding="x" * 40_000)
    yield "no token", b"alice"


def secrets_of(kid: str) -> Iterator[tuple[str, bytes]]:
    public = private_key(kid).public_key()
    kind = serialization.PublicFormat.SubjectPublicKeyInfo
    yield "PEM", public.public_bytes(serialization.Encoding.PEM, kind)
    yield "DER", public.public_bytes(serialization.Encoding.DER, kind)
    yield "JWK", json.dumps(public_jwk(kid)).encode()


FORGED = dict(forged())


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_token_gives_no_user(name: str) -> None:
    """The client hears what Kafka's says, and the connection ends."""
    made = gate()
    wire = made.wire.client(sasl.handshake(1, "OAUTHBEARER"))
    wire.client(sasl.authenticate(2, bearer(FORGED[name].decode())))
    made.verify()
    wire.client(sasl.authenticate(3, b"\x01") + f.heartbeat(4))
    wire.advance(FAILURE_DELAY_MS)
    assert wire.session.peer.user == "ANONYMOUS"
    assert made.reason is CloseReason.AUTHENTICATION_FAILED
    assert wire.to_broker == b""
    wire.release()
    assert wire.held_bytes == 0


def test_the_same_client_with_a_good_token_is_in() -> None:
    """So what refuses the others is what was changed."""
    for kid in KIDS:
        made = gate()
        made.wire.client(sasl.handshake(1, "OAUTHBEARER"))
        made.wire.client(sasl.authenticate(2, bearer(signed(kid, iat=NOW, exp=NOW + 300).decode())))
        made.verify()
        assert made.speaker() == ("alice", "sasl")


def test_the_page_has_the_number_of_forgeries() -> None:
    """docs/use/threats.md says how many there are."""
    assert len(FORGED) == 122
