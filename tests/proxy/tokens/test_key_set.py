"""The keys of a set: which are good for what, and which texts are no set."""

import json

import pytest

from proxy.tokens.key_set import MAX_BYTES, MAX_KEYS, MAX_TRIED, KeySet, KeySetError
from tests.support.shell.token_issuer import jwks, private_key, public_jwk

ALL = ("RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA")


def keys_of(*members: object, algorithms: tuple[str, ...] = ALL) -> KeySet:
    return KeySet(json.dumps({"keys": members}).encode(), algorithms)


@pytest.mark.parametrize("kid", ALL)
def test_a_key_is_good_for_the_algorithms_of_its_kind(kid: str) -> None:
    """An RSA key for both paddings; a curve for its own hash alone."""
    keys = KeySet(jwks(kid), ALL)
    good = {each for each in ALL if keys.candidates(each, kid)}
    assert good == ({"RS256", "PS256"} if kid in ("RS256", "PS256") else {kid})
    assert keys.size == 1


def test_a_key_that_names_its_algorithm_is_good_for_that_one() -> None:
    """And for none at all if the settings do not allow it."""
    named = public_jwk("RS256", alg="PS256")
    keys = keys_of(named, public_jwk("ES256"))
    assert keys.candidates("PS256", "RS256")
    assert not keys.candidates("RS256", "RS256")
    with pytest.raises(KeySetError, match="none of its 1 keys"):
        keys_of(named, algorithms=("RS256",))


UNUSABLE = [
    {"kty": "oct", "k": "c2VjcmV0", "kid": "RS256"},
    {"kty": "oct", "k": "c2VjcmV0", "kid": "h", "alg": "HS256"},
    public_jwk("RS256", use="enc"),
    public_jwk("RS256", key_ops=["encrypt"]),
    public_jwk("RS256", key_ops="verify"),
    public_jwk("RS256", kty="RSA2"),
    public_jwk("RS256", alg="none"),
    public_jwk("RS256", n="!"),
    public_jwk("RS256", n=None),
    public_jwk("RS256", n=5),
    public_jwk("RS256", kid=["RS256"]),
    public_jwk("RS256-short"),
    public_jwk("ES256", crv="P-384"),
    public_jwk("ES256", crv="secp256k1"),
    public_jwk("ES256", x=None),
    "a text",
    None,
]


@pytest.mark.parametrize("member", UNUSABLE, ids=repr)
def test_a_key_that_cannot_be_used_is_left_out(member: object) -> None:
    """Never a shared secret, a key for encryption or a short one; the others of the set are used."""
    assert keys_of(member, public_jwk("EdDSA")).size == 1
    with pytest.raises(KeySetError, match="none of its 1 keys"):
        keys_of(member)


def test_a_private_key_in_the_set_counts_as_its_public_part() -> None:
    """A careless file must not bring a signing key into memory."""
    member = {**public_jwk("ES256"), "d": "AAAA"}
    (key,) = keys_of(member).candidates("ES256", "ES256")
    assert key.public_numbers() == private_key("ES256").public_key().public_numbers()


def test_an_id_selects_a_key_and_no_id_tries_few() -> None:
    """Ids are compared as texts: a path, an address or a pattern is an unknown one."""
    keys = keys_of(*(public_jwk(f"ES256-{number}") for number in range(9)))
    assert len(keys.candidates("ES256", "ES256-3")) == 1
    assert len(keys.candidates("ES256", "")) == MAX_TRIED
    for kid in ("ES256", "*", "../ES256-3", "https://evil/ES256-3", "ES256-3\0", "' or 1=1"):
        assert keys.candidates("ES256", kid) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no list"),
        (b'{"keys": {}}', "no list"),
        (b'{"keys": []}', "none of its 0 keys"),
        (b'{"keys": [], "keys": []}', "each name stands once"),
        (b" " * (MAX_BYTES + 1), "more than"),
        (json.dumps({"keys": [None] * (MAX_KEYS + 1)}).encode(), f"more than {MAX_KEYS}"),
    ],
    ids=lambda each: repr(each[:20]),
)
def test_a_text_that_is_no_set_says_why(content: bytes, words: str) -> None:
    """Without a part of it."""
    with pytest.raises(KeySetError, match=words):
        KeySet(content, ALL)
