"""The check of one token: what is proved, and every trick that is not."""

import json

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st
from jwt import PyJWS

from proxy.core.auth.bearer_tokens import TokenFacts, TokenFault, UnknownKey
from proxy.core.auth.principal_mapping import PrincipalMapper
from proxy.tokens.claims import ClaimRules
from proxy.tokens.key_set import KeySet
from proxy.tokens.token_check import SignedCheck, UnsignedCheck
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

ALGORITHMS = ("RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA")
KIDS = ("RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA")
RULES = ClaimRules(ISSUER, frozenset({AUDIENCE}), "sub", PrincipalMapper(("DEFAULT",)), "groups")
KEYS = KeySet(jwks(*KIDS), ALGORITHMS)

Result = TokenFacts | TokenFault | UnknownKey


def check(token: bytes, algorithms: tuple[str, ...] = ALGORITHMS, keys: KeySet = KEYS) -> Result:
    return SignedCheck(token, keys, PyJWS(algorithms), RULES).run()


def why(token: bytes, **options: object) -> str:
    """Return why a token is refused; it must be."""
    found = check(token, **options)  # type: ignore[arg-type]
    assert isinstance(found, TokenFault | UnknownKey), found
    return found.value if isinstance(found, UnknownKey) else found.why


@pytest.mark.parametrize("kid", KIDS)
def test_a_signed_token_says_its_user(kid: str) -> None:
    """With each algorithm."""
    found = check(signed(kid, groups=["ops"]))
    assert isinstance(found, TokenFacts)
    assert (found.user, found.groups) == ("alice", {"ops"})


@pytest.mark.parametrize("kid", KIDS)
def test_a_changed_token_is_refused(kid: str) -> None:
    """Whichever part is another's, or of another key of the same kind."""
    mine, other = signed(kid).split(b"."), signed(kid, user="root").split(b".")
    for place in range(3):
        mixed = [*mine]
        mixed[place] = other[place]
        if mixed != mine:
            assert "signature" in why(b".".join(mixed))
    stranger = signed(f"{kid}-stranger", {"kid": kid})
    assert why(stranger) == "its signature is wrong"


def test_an_algorithm_that_is_not_allowed_is_refused() -> None:
    """Whatever the token says, and also if its key would fit."""
    assert "algorithm" in why(signed("ES256"), algorithms=("RS256",))
    claims = part(claims_of())
    for name in ("none", "None", "NONE", "nOnE", "", "HS256", "RS1", None, 5, ["RS256"], {}):
        unsigned = part({"alg": name, "kid": "RS256"}) + b"." + claims
        assert "algorithm" in why(unsigned + b".")
        assert "algorithm" in why(unsigned + b"." + signed().split(b".")[2])


@pytest.mark.parametrize("kid", ["RS256", "ES256", "EdDSA"])
def test_a_public_key_is_no_secret_to_sign_with(kid: str) -> None:
    """The confusion of algorithms: HMAC under a text that everyone knows (CVE-2015-9235)."""
    public = private_key(kid).public_key()
    encodings = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    for secret in (public.public_bytes(*encodings), json.dumps(public_jwk(kid)).encode()):
        head = part({"alg": "HS256", "kid": kid}) + b"." + part(claims_of())
        forged = head + b"." + part(jwt.algorithms.HMACAlgorithm("sha256").sign(head, secret))
        assert "algorithm" in why(forged)
        assert why(forged, algorithms=("HS256", "RS256")) == UnknownKey.UNKNOWN_KEY.value


def test_a_header_cannot_bring_its_own_key() -> None:
    """Neither in itself, nor by an address, a path or a certificate."""
    own = public_jwk("RS256-stranger")
    for name, value in (
        ("jwk", own),
        ("jku", "https://evil.test/keys"),
        ("x5u", "https://evil.test/cert"),
        ("x5c", ["AAAA"]),
    ):
        stranger = signed("RS256-stranger", {"kid": "RS256", name: value})
        assert why(stranger) == "its signature is wrong"
        unknown = signed("RS256-stranger", {"kid": "RS256-stranger", name: value})
        assert why(unknown) == UnknownKey.UNKNOWN_KEY.value


@pytest.mark.parametrize(
    "kid",
    ["x", "../../etc/passwd", "/dev/null", "https://evil/k", "' OR 1=1 --", "RS256\0", "\ud83d"],
)
def test_an_unknown_key_id_is_looked_up_and_nothing_else(kid: str) -> None:
    """It is a text to compare."""
    assert why(signed("RS256", {"kid": kid})) == UnknownKey.UNKNOWN_KEY.value


def test_a_token_without_a_key_id_is_tried_with_the_keys_of_its_kind() -> None:
    """A provider with one key need not name it."""
    assert isinstance(check(signed("ES384", {"kid": None})), TokenFacts)
    assert why(signed("ES384-stranger", {"kid": None})) == "its signature is wrong"


@pytest.mark.parametrize(
    "header",
    [{"crit": ["exp"]}, {"crit": []}, {"b64": True}, {"kid": 5}, {"kid": ["RS256"]}],
    ids=repr,
)
def test_a_header_that_asks_for_more_is_refused(header: dict[str, object]) -> None:
    """What is critical must be understood (RFC 7515)."""
    _, claims, signature = signed().split(b".")
    head = part({"alg": "RS256", "kid": "RS256", **header})
    assert "not supported" in why(b".".join((head, claims, signature)))


def test_a_name_that_stands_twice_is_refused() -> None:
    """Readers differ about which one counts."""
    key = private_key("ES256")
    for head, body in (
        (b'{"alg":"ES256","kid":"ES256","kid":"x"}', json.dumps(claims_of()).encode()),
        (
            b'{"alg":"ES256","kid":"ES256"}',
            json.dumps(claims_of())[:-1].encode() + b',"sub":"root"}',
        ),
        (
            b'{"alg":"ES256","kid":"ES256"}',
            json.dumps(claims_of())[:-1].encode() + b',"x":{"a":1,"a":2}}',
        ),
        (b'{"alg":"ES256","kid":"ES256"}', json.dumps(claims_of())[:-1].encode() + b',"x":NaN}'),
    ):
        text = part(head) + b"." + part(body)
        token = (
            text
            + b"."
            + part(jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256).sign(text, key))
        )
        assert why(token) in (
            "it is no JWT",
            "its claims are no JSON in which each name stands once",
        )


DEEP = b"[" * 20_000 + b"]" * 20_000


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b".",
        b"..",
        b"...",
        b"a.b.c",
        b"a.b.c.d.e",
        part(DEEP) + b"." + part(DEEP) + b".x",
        part([]) + b"." + part([]) + b".x",
        part({"alg": "RS256", "kid": "RS256"}) + b"." + part(DEEP) + b".AAAA",
        signed() + b"=",
        signed() + b"==",
        b" " + signed(),
        signed() + b"\n",
        signed().replace(b".", b"..", 1),
        signed()[:-3],
        bytes(range(256)),
    ],
    ids=lambda each: repr(each[:24]),
)
def test_another_form_is_refused(token: bytes) -> None:
    """Whatever it is, the check says so and does not raise."""
    assert why(token)


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_refused(token: bytes) -> None:
    """Bare, and in the place of each part of a good token."""
    assert why(token)
    for place in range(3):
        parts = signed("ES256", exp=4_000_000_000, iat=0).split(b".")
        parts[place] = token
        assert why(b".".join(parts))


def test_no_reason_has_a_word_of_the_token() -> None:
    """It goes to the log."""
    canary = "canary-5d1c"
    tokens = (
        signed("RS256", {"kid": canary}),
        signed("RS256", iss=canary),
        signed("RS256", aud=canary),
        signed("RS256", user=canary + "\n"),
        signed("RS256", exp=canary),
        signed("RS256", groups=[canary, 1]),
        signed("RS256-stranger", {"kid": "RS256"}, sub=canary),
    )
    for token in tokens:
        assert canary not in why(token)
        assert token.decode() not in repr(SignedCheck(token, KEYS, PyJWS(), RULES))


# --- tokens that nobody has signed -----------------------------------------------------------------


def unsigned(token: bytes) -> TokenFacts | TokenFault:
    return UnsignedCheck(token, RULES).run()


def test_an_unsigned_token_is_read_where_it_is_accepted() -> None:
    """Its claims are judged as those of a signed one; a signed one is refused there."""
    head = part({"alg": "none"})
    found = unsigned(head + b"." + part(claims_of("bob")) + b".")
    assert isinstance(found, TokenFacts)
    assert found.user == "bob"
    for wrong in (
        head + b"." + part(claims_of(exp=None)) + b".",
        head + b"." + part(claims_of()) + b".AAAA",
        head + b"." + part([]) + b".",
        signed(),
        b"",
    ):
        assert isinstance(unsigned(wrong), TokenFault)
