"""What a SASL exchange tells whoever listens: which mechanism, whose name, whether it is over.

- Only read, never judged: whether a password is right is the broker's word alone.
- Read as the broker reads it, no stricter: whoever the broker takes for alice must be alice here too,
  or a client could hide behind a message that only we refuse. So what stands behind the fields is not looked at.
- Nothing secret leaves these functions: of a PLAIN message the names only, of SCRAM the client's
  first message only.

Sources: KIP-43, KIP-152, KIP-368; RFC 4616 (PLAIN), RFC 5802 (SCRAM); Kafka's `PlainSaslServer`,
`ScramMessages`, `ScramFormatter`, `ScramExtensions`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from wire.errors import WireError
from wire.primitives import (
    Buffer,
    bytes_length,
    compact_length,
    int16_at,
    int64_at,
    skip,
    skip_compact,
    skip_string,
    string_length,
)

SCRAM_FINAL: Final = b"v="
"""How the server's last SCRAM message begins: the signature, by which the exchange is complete."""

_FLEXIBLE_FROM: Final = 2  # SaslAuthenticate
_LIFETIME_FROM: Final = 1


class AuthenticateReply(NamedTuple):
    """A SaslAuthenticate response. Beside an error the other fields are empty."""

    error_code: int
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0


class PlainNames(NamedTuple):
    """Who asks (`authcid`), and as whom it wants to act (`authzid`, usually empty)."""

    authzid: str
    authcid: str


class ScramFirst(NamedTuple):
    """The client's first SCRAM message. `by_token`: `username` is the id of a delegation token."""

    authzid: str
    username: str
    by_token: bool


# --- Kafka's messages: bodies, behind the header -----------------------------------------------


def mechanism(body: Buffer) -> str:
    """The mechanism that a SaslHandshake request (v0, v1) asks for."""
    length, pos = string_length(body, 0, len(body))
    if length < 0:
        raise WireError("SaslHandshake without a mechanism")
    return _text(body[pos : pos + length])


def handshake_error(body: Buffer) -> int:
    """The error code of a SaslHandshake response (v0, v1)."""
    skip(0, 2, len(body))
    code: int = int16_at(body, 0)[0]
    return code


def auth_bytes(body: Buffer, version: int) -> bytes:
    """The token in a SaslAuthenticate request (v0 to v2)."""
    return _token(body, 0, version)[0]


def authenticate_reply(body: Buffer, version: int) -> AuthenticateReply:
    """A SaslAuthenticate response (v0 to v2)."""
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
        raise WireError("SaslAuthenticate without a token")
    return bytes(body[pos : pos + length]), pos + length


# --- the mechanisms' messages ------------------------------------------------------------------


def plain_names(message: bytes) -> PlainNames:
    """The names in a PLAIN message, `[authzid] NUL authcid NUL password`.

    More behind a third NUL is refused by newer brokers only, and so it is no matter here.
    """
    parts = message.split(b"\0", 2)
    if len(parts) < 3 or not parts[1]:
        raise WireError("a PLAIN message without a name or without a password")
    return PlainNames(_text(parts[0]), _text(parts[1]))


def scram_first(message: bytes) -> ScramFirst:
    """The client's first message, `n,[a=authzid],[m=...,]n=username,r=nonce[,extension=value...]`."""
    parts = message.split(b",")
    if len(parts) > 2 and parts[2].startswith(b"m="):
        del parts[2]
    if len(parts) < 4 or not (parts[0] in (b"n", b"y") or parts[0].startswith(b"p=")):
        raise WireError("no first message of SCRAM")
    if parts[1] and not parts[1].startswith(b"a="):
        raise WireError("a first message of SCRAM with something else for authzid")
    if not parts[2].startswith(b"n=") or not parts[3].startswith(b"r="):
        raise WireError("a first message of SCRAM without name and nonce")
    by_token = False
    for extension in parts[4:]:
        name, _, value = extension.partition(b"=")
        if name == b"tokenauth":  # the last one counts, as in Kafka
            by_token = value.lower() == b"true"
    return ScramFirst(_text(parts[1][2:]), _scram_name(parts[2][2:]), by_token)


def _scram_name(name: bytes) -> str:
    """A saslname without its escapes: `=2C` is a comma, `=3D` an equals sign."""
    bare = name.replace(b"=2C", b",")
    if b"=" in bare.replace(b"=3D", b""):
        raise WireError("a SCRAM name with an escape that does not exist")
    if not name or b"\0" in name:
        raise WireError("a SCRAM name that is empty or holds a NUL")
    return _text(bare.replace(b"=3D", b"="))


def _text(data: Buffer) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise WireError("a name that is not UTF-8") from error
