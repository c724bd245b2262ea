r"""Reads a client's first OAUTHBEARER message and the parts of its token, if that is a JWT.

    n,[a=authzid],\x01auth=Bearer TOKEN\x01[name=value\x01...]\x01

Nothing is validated here: no signature, no time, no issuer. Where the broker authenticates clients, it does that, and
only a token that it has accepted gives a name (`bearer_names`). Sluice's own check is in `proxy.tokens`.
Sources: RFC 7628, RFC 7519; Kafka's `OAuthBearerClientInitialResponse`, `OAuthBearerSaslServer`.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from typing import Final, NamedTuple

from wire.errors import WireError

MAX_TOKEN_BYTES: Final = 65536
"""A longer token is not read; it is opaque."""
TOKEN_REFUSED: Final = '{"status":"invalid_token"}'  # noqa: S105 - Kafka's words
"""What a server says of a token that it refuses, as Kafka says it (RFC 7628, section 3.2.2)."""
DISMISSED: Final = b"\x01"
"""The client's answer to it: then the exchange fails (RFC 7628, section 3.2.3)."""

_MESSAGE: Final = re.compile(
    rb"n,(?:a=([^,\x01]*))?,\x01((?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)*)\x01"
).fullmatch
_AUTH: Final = re.compile(
    rb"(?:^|(?<=\x01))auth=[Bb][Ee][Aa][Rr][Ee][Rr] +([-_~+/.A-Za-z0-9]+=*)\x01"
)


class BearerMessage(NamedTuple):
    """The identity to act as (`authzid`, usually empty), and the token."""

    authzid: str
    token: bytes

    def __repr__(self) -> str:
        """Return a text without the token."""
        return f"BearerMessage({self.authzid!r})"


class BearerNames(NamedTuple):
    """The identity to act as (`authzid`, usually empty), and the value of the claim; None if the token is opaque."""

    authzid: str
    claim: str | None


def bearer_names(message: bytes, claim: str) -> BearerNames:
    """Return the names in the client's first message. Raises `WireError` if it has another form."""
    authzid, token = bearer_message(message)
    return BearerNames(authzid, _claim_of(token, claim))


def bearer_message(message: bytes) -> BearerMessage:
    """Return what the client's first message has. Raises `WireError` if it has another form."""
    found = _MESSAGE(message) if len(message) <= 2 * MAX_TOKEN_BYTES else None
    tokens = [] if found is None else _AUTH.findall(found.group(2))
    if found is None or len(tokens) != 1:
        raise WireError("OAUTHBEARER message is malformed or too long, expected one bearer token")
    try:
        authzid = (found.group(1) or b"").decode()
    except UnicodeDecodeError as error:
        raise WireError("OAUTHBEARER authzid is not valid UTF-8") from error
    return BearerMessage(authzid, tokens[0])


def _claim_of(token: bytes, claim: str) -> str | None:
    """Return a claim of a JWT that is a text and stands there once; None for any other token."""
    parts = token.split(b".")
    if len(parts) != 3 or len(token) > MAX_TOKEN_BYTES:
        return None
    claims = json_object(parts[1])
    value = None if claims is None else claims.get(claim)
    return value if isinstance(value, str) and value else None


def json_object(part: bytes) -> dict[str, object] | None:
    """Return the object that a part of a JWT is, None if it is none or has a name twice, at any depth."""
    try:
        found = json.loads(
            urlsafe_b64decode(part + b"=" * (-len(part) % 4)),
            object_pairs_hook=unique_object,
            parse_constant=_refuse,
        )
    except (Base64Error, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def unique_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON. Raises ValueError if it has a name twice: readers differ about which one counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _refuse(constant: str) -> object:
    """Refuse NaN and the infinities, which are no JSON."""
    raise ValueError(f"{constant} is no JSON")
