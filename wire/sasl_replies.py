"""Writes the replies of a SASL server: SaslHandshake (17) and SaslAuthenticate (36).

Only bodies are written; the sender adds the header. Sources: KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from wire.errors import ErrorCode
from wire.primitives import INT16, encode_compact, encode_count, encode_string

if TYPE_CHECKING:
    from collections.abc import Sequence

_LIFETIME: Final = Struct(">q").pack
_LIFETIME_FROM: Final = 1
_FLEXIBLE_FROM: Final = 2
_NO_TAGS: Final = b"\0"


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
