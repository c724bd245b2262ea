r"""Reads the name in a client's first OAUTHBEARER message: a claim of its token, if the token is a JWT.

    n,[a=authzid],\x01auth=Bearer TOKEN\x01[name=value\x01...]\x01

The token is not validated: no signature, no time, no issuer. The broker does that, and only a token that it has
accepted gives a name. Sources: RFC 7628, RFC 7519; Kafka's `OAuthBearerClientInitialResponse`.
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

_MESSAGE: Final = re.compile(
    rb"n,(?:a=([^,\x01]*))?,\x01((?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)*)\x01"
).fullmatch
_AUTH: Final = re.compile(
    rb"(?:^|(?<=\x01))auth=[Bb][Ee][Aa][Rr][Ee][Rr] +([-_~+/.A-Za-z0-9]+=*)\x01"
)


class BearerNames(NamedTuple):
    """The identity to act as (`authzid`, usually empty), and the value of the claim; None if the token is opaque."""

    authzid: str
    claim: str | None


def bearer_names(message: bytes, claim: str) -> BearerNames:
    """Return the names in the client's first message. Raises `WireError` if it has another form."""
    found = _MESSAGE(message) if len(message) <= 2 * MAX_TOKEN_BYTES else None
    tokens = [] if found is None else _AUTH.findall(found.group(2))
    if found is None or len(tokens) != 1:
        raise WireError("OAUTHBEARER message is malformed or too long, expected one bearer token")
    try:
        authzid = (found.group(1) or b"").decode()
    except UnicodeDecodeError as error:
        raise WireError("OAUTHBEARER authzid is not valid UTF-8") from error
    return BearerNames(authzid, _claim_of(tokens[0], claim))


def _claim_of(token: bytes, claim: str) -> str | None:
    """Return a claim of a JWT that is a text and stands there once; None for any other token."""
    parts = token.split(b".")
    if len(parts) != 3 or len(token) > MAX_TOKEN_BYTES:
        return None
    body = parts[1]
    try:
        claims = json.loads(
            urlsafe_b64decode(body + b"=" * (-len(body) % 4)), object_pairs_hook=_unique
        )
    except (Base64Error, ValueError, RecursionError):
        return None
    value = claims.get(claim) if isinstance(claims, dict) else None
    return value if isinstance(value, str) and value else None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON. Raises ValueError if it has a name twice: readers differ about which one counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found
