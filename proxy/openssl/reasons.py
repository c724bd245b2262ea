"""The errors of OpenSSL in words."""

from __future__ import annotations

import ssl
from typing import Final

ENDED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""OpenSSL's errors at the end of the stream."""


def words_of(error: ssl.SSLError) -> str:
    """Return the reason of OpenSSL in words, such as "sslv3 alert bad certificate"."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, ENDED):
        return "the connection was closed"
    return (error.reason or str(error)).lower().replace("_", " ")
