"""Reads SASL messages as an observer: the mechanism, the user's name, and whether the exchange is complete. Writes the
requests by which Sluice itself authenticates, and the replies of a server: bodies only.

- A client's messages are only read, never judged: the broker alone decides whether a password is right.
- They are read as the broker reads them, no stricter. A user that the broker accepts as alice must be alice here too;
  otherwise a client could hide its name with a message that only Sluice refuses. So bytes after the known fields are
  ignored.
- No secret leaves these functions: of a PLAIN message only the names, of SCRAM only the client's first message.

Sources: KIP-43, KIP-152, KIP-368; RFC 4616 (PLAIN), RFC 5802 (SCRAM); Kafka's `PlainSaslServer`,
`ScramMessages`, `ScramFormatter`, `ScramExtensions`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from wire.api_keys import ApiKey
from wire.errors import ErrorCode, WireError
from wire.metadata import CLIENT_ID
from wire.primitives import (
    INT16,
    Buffer,
    array_count,
    bytes_length,
    compact_length,
    encode_compact,
    encode_count,
    encode_string,
    int16_at,
    int64_at,
    skip,
    skip_compact,
    skip_string,
    string_length,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


SCRAM_FINAL: Final = b"v="
"""The first bytes of the server's last SCRAM message, its signature: the exchange is complete."""

REQUEST_VERSION: Final = 1
"""The version of Sluice's own SaslHandshake and SaslAuthenticate. It is the oldest that says how long a session lasts
(KIP-368, Kafka 2.2), and Kafka 4 still accepts it."""
MAX_MECHANISMS: Final = 64
"""The most mechanisms that a broker may name."""

MAX_TOKEN_BYTES: Final = 524_288
"""The largest token that a broker accepts (Kafka: sasl.server.max.receive.size)."""
UNSAID_TOKEN_BYTES: Final = 16 << 10
"""The largest token of a client that has not named a mechanism: a broker refuses it in any case."""
_LARGEST_TOKEN_BYTES: Final = {
    "PLAIN": 16 << 10,
    "SCRAM-SHA-256": 16 << 10,
    "SCRAM-SHA-512": 16 << 10,
    "OAUTHBEARER": 128 << 10,
    "GSSAPI": 128 << 10,  # a ticket with its groups has up to 64 KiB
}
"""Names and passwords are short; a JWT or a ticket is not."""

_HEADER: Final = Struct(">hhi").pack
_FLEXIBLE_FROM: Final = 2  # SaslAuthenticate
_LIFETIME_FROM: Final = 1
_LIFETIME: Final = Struct(">q").pack
_NO_TAGS: Final = b"\0"


class HandshakeReply(NamedTuple):
    """A SaslHandshake response: the mechanisms that the broker has enabled, also with an error."""

    error_code: int
    mechanisms: tuple[str, ...]


class AuthenticateReply(NamedTuple):
    """A SaslAuthenticate response. With an error the other fields are empty."""

    error_code: int
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0


class PlainNames(NamedTuple):
    """The authenticated identity (`authcid`), and the identity to act as (`authzid`, usually empty)."""

    authzid: str
    authcid: str


class ScramFirst(NamedTuple):
    """The client's first SCRAM message. If `by_token`, `username` is the id of a delegation token."""

    authzid: str
    username: str
    by_token: bool


# --- Kafka's messages: bodies, after the header ------------------------------------------------


def largest_token_bytes(name: str) -> int:
    """Return how large a token of this mechanism may be; "": none is named yet."""
    return _LARGEST_TOKEN_BYTES.get(name, MAX_TOKEN_BYTES) if name else UNSAID_TOKEN_BYTES


def mechanism(body: Buffer) -> str:
    """Return the mechanism that a SaslHandshake request (v0, v1) asks for. Raises `WireError` if it is malformed."""
    length, pos = string_length(body, 0, len(body))
    if length < 0:
        raise WireError("SaslHandshake mechanism is null, expected a name")
    return _text(body[pos : pos + length])


def handshake_error(body: Buffer) -> int:
    """Return the error code of a SaslHandshake response (v0, v1)."""
    skip(0, 2, len(body))
    code: int = int16_at(body, 0)[0]
    return code


def handshake_reply(body: Buffer) -> HandshakeReply:
    """Return what a SaslHandshake response (v0, v1) says. Raises `WireError` if it is malformed."""
    end = len(body)
    code = handshake_error(body)
    count, pos = array_count(body, 2, end, 2)
    if not 0 <= count <= MAX_MECHANISMS:
        raise WireError(f"{count} mechanisms in SaslHandshake, expected 0..{MAX_MECHANISMS}")
    names = []
    for _ in range(count):
        length, pos = string_length(body, pos, end)
        names.append(_text(body[pos : pos + max(length, 0)]))
        pos += max(length, 0)
    return HandshakeReply(code, tuple(names))


def handshake_request(mechanism: str, correlation_id: int) -> bytes:
    """Return a whole SaslHandshake request frame (v1) of Sluice itself."""
    return _request(ApiKey.SASL_HANDSHAKE, correlation_id, encode_string(mechanism.encode()))


def authenticate_request(token: bytes, correlation_id: int) -> bytes:
    """Return a whole SaslAuthenticate request frame (v1) of Sluice itself."""
    return _request(ApiKey.SASL_AUTHENTICATE, correlation_id, encode_count(len(token)) + token)


def _request(api_key: int, correlation_id: int, body: bytes) -> bytes:
    head = _HEADER(api_key, REQUEST_VERSION, correlation_id) + encode_string(CLIENT_ID)
    return encode_count(len(head) + len(body)) + head + body


def auth_bytes(body: Buffer, version: int) -> bytes:
    """Return the token in a SaslAuthenticate request (v0 to v2). Raises `WireError` if it is malformed."""
    return _token(body, 0, version)[0]


def authenticate_reply(body: Buffer, version: int) -> AuthenticateReply:
    """Return what a SaslAuthenticate response (v0 to v2) says. Raises `WireError` if it is malformed."""
    end = len(body)
    pos = skip(0, 2, end)
    error_code: int = int16_at(body, 0)[0]
    if error_code:
        return AuthenticateReply(error_code)
    pos = (skip_compact if version >= _FLEXIBLE_FROM else skip_string)(body, pos, end)
    token, pos = _token(body, pos, version)
    if version < _LIFETIME_FROM:
        return AuthenticateReply(0, token)
    skip(pos, 8, end)
    return AuthenticateReply(0, token, int64_at(body, pos)[0])


def _token(body: Buffer, pos: int, version: int) -> tuple[bytes, int]:
    read = compact_length if version >= _FLEXIBLE_FROM else bytes_length
    length, pos = read(body, pos, len(body))
    if length < 0:
        raise WireError("SaslAuthenticate auth_bytes is null, expected a token")
    return bytes(body[pos : pos + length]), pos + length


# --- the mechanisms' messages ------------------------------------------------------------------


def plain_names(message: bytes) -> PlainNames:
    """Return the names in a PLAIN message, `[authzid] NUL authcid NUL password`.

    Only newer brokers refuse bytes after a third NUL, so they are ignored here. Raises `WireError` without a name or
    password.
    """
    parts = message.split(b"\0", 2)
    if len(parts) < 3 or not parts[1]:
        raise WireError("PLAIN message is malformed, expected [authzid] NUL authcid NUL password")
    return PlainNames(_text(parts[0]), _text(parts[1]))


def scram_first(message: bytes) -> ScramFirst:
    """Return the names in the client's first message, `n,[a=authzid],[m=...,]n=username,r=nonce[,extension=value...]`.

    Raises `WireError` if the message has another form.
    """
    parts = message.split(b",")
    if len(parts) > 2 and parts[2].startswith(b"m="):
        del parts[2]
    if len(parts) < 4 or not (parts[0] in (b"n", b"y") or parts[0].startswith(b"p=")):
        raise WireError(
            "SCRAM first message is malformed, expected a GS2 header and 2 or more attributes"
        )
    if parts[1] and not parts[1].startswith(b"a="):
        raise WireError("SCRAM first message has an unknown authzid, expected a=name or nothing")
    if not parts[2].startswith(b"n=") or not parts[3].startswith(b"r="):
        raise WireError("SCRAM first message has no name and nonce, expected n=name,r=nonce")
    by_token = False
    for extension in parts[4:]:
        name, _, value = extension.partition(b"=")
        if name == b"tokenauth":  # the last one counts, as in Kafka
            by_token = value.lower() == b"true"
    return ScramFirst(_text(parts[1][2:]), _scram_name(parts[2][2:]), by_token)


def _scram_name(name: bytes) -> str:
    """Return a saslname without its escapes: `=2C` is a comma, `=3D` an equals sign."""
    bare = name.replace(b"=2C", b",")
    if b"=" in bare.replace(b"=3D", b""):
        raise WireError("SCRAM name has an unknown escape, expected =2C or =3D")
    if not name or b"\0" in name:
        raise WireError(
            f"SCRAM name of {len(name)} bytes is empty or contains NUL, expected 1 or more other bytes"
        )
    return _text(bare.replace(b"=3D", b"="))


def _text(data: Buffer) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        at = f"byte {error.start} of {len(data)}"
        raise WireError(f"SASL name is not valid UTF-8, at {at}") from error


def handshake_body(error_code: int, mechanisms: Sequence[str] = ()) -> bytes:
    """Return the body of a SaslHandshake response (v0, v1) that offers `mechanisms`."""
    names = b"".join(encode_string(name.encode()) for name in mechanisms)
    return INT16.pack(error_code) + encode_count(len(mechanisms)) + names


def authenticate_body(
    version: int,
    auth_bytes: bytes = b"",
    session_lifetime_ms: int = 0,
    *,
    error_code: int = ErrorCode.NONE,
    message: str | None = None,
) -> bytes:
    """Return the body of a SaslAuthenticate response (v0 to v2). The lifetime is left out of v0, which has none."""
    head = INT16.pack(error_code)
    words = None if message is None else message.encode(errors="replace")
    lifetime = _LIFETIME(session_lifetime_ms) if version >= _LIFETIME_FROM else b""
    if version >= _FLEXIBLE_FROM:
        return head + encode_compact(words) + encode_compact(auth_bytes) + lifetime + _NO_TAGS
    return head + encode_string(words) + encode_count(len(auth_bytes)) + auth_bytes + lifetime
