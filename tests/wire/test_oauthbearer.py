"""The name in a token of OAUTHBEARER: a text claim of a JWT, and nothing from any other token."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.sasl import bearer, unsigned_token
from wire.errors import WireError
from wire.oauthbearer import MAX_TOKEN_BYTES, bearer_names


def jwt(payload: bytes) -> str:
    """Return a token with this payload, and a signature without a key."""
    parts = (b'{"alg":"RS256"}', payload, b"signature")
    return ".".join(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts)


def claim_of(payload: bytes, claim: str = "sub") -> str | None:
    return bearer_names(bearer(jwt(payload)), claim).claim


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50))
def test_a_text_claim_is_the_name(name: str) -> None:
    """In any language; the signature is not looked at."""
    assert claim_of(json.dumps({"iss": "x", "sub": name, "exp": 1}).encode()) == name


def test_the_claim_can_be_chosen_and_other_fields_are_read_past() -> None:
    """As Kafka's sasl.oauthbearer.sub.claim.name; the fields of RFC 7628 in any order."""
    payload = json.dumps({"sub": "a", "client_id": "b"}).encode()
    assert claim_of(payload, "client_id") == "b"
    assert claim_of(payload, "email") is None
    assert bearer_names(bearer(unsigned_token("alice", 60)), "sub").claim == "alice"

    token = unsigned_token("alice", 60)
    for message in (
        f"n,a=alice,\x01auth=Bearer {token}\x01\x01",
        f"n,a=alice,\x01host=a b\x01auth=bearer  {token}\x01port=1\x01\x01",
    ):
        assert bearer_names(message.encode(), "sub") == ("alice", "alice")


@for_each(
    [
        b"",
        b"[]",
        b'"sub"',
        b'{"sub": 7}',
        b'{"sub": null}',
        b'{"sub": ""}',
        b'{"sub": ["alice"]}',
        b'{"sub": "alice", "sub": "bob"}',
        b'{"sub": "alice"',
        b'{"sub": "\xff"}',
        b'{"sub": "alice", "x": ' + b"[" * 20_000,
    ]
)
def test_any_other_payload_has_no_name(payload: bytes) -> None:
    """No text, twice there, or no JSON: readers could differ, so none is chosen."""
    assert claim_of(payload) is None


@pytest.mark.parametrize(
    "token", ["opaque", "a.b", "a.b.c.d", "a.%.c", "x" * (MAX_TOKEN_BYTES + 1)]
)
def test_an_opaque_token_has_no_name(token: str) -> None:
    """It is the broker's to read."""
    if "%" in token:
        with pytest.raises(WireError):
            bearer_names(bearer(token), "sub")
    else:
        assert bearer_names(bearer(token), "sub") == ("", None)


@for_each(
    [
        b"",
        b"n,,",
        b"n,,\x01\x01",
        b"\x01",
        b"y,,\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Basic a\x01\x01",
        b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01",
        b"n,,\x01auth=Bearer a\x01x=1\x01auth=Bearer b\x01\x01",
        b"n,,\x01auth=Bearer a\x01",
        b"n,,\x01auth=Bearer a\x01\x01\x00",
        b"n,a=\xff,\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Bearer a\x01" + b"x=1\x01" * 40_000 + b"\x01",
    ]
)
def test_a_message_of_another_form_is_malformed(message: bytes) -> None:
    """Two tokens too: the broker might read the other one."""
    with pytest.raises(WireError):
        bearer_names(message, "sub")
