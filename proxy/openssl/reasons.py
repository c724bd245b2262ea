"""The errors of OpenSSL in words."""

from __future__ import annotations

import ssl
from typing import Final

ENDED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""OpenSSL's errors at the end of the stream."""
_OWN_CERTIFICATE: Final = "upstream.tls.cert_file"
_DEMANDS: Final = frozenset(
    {
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",  # OpenSSL
        "SSLV3_ALERT_BAD_CERTIFICATE",  # Java
        "SSLV3_ALERT_HANDSHAKE_FAILURE",  # OpenSSL by TLS 1.2
    }
)
"""Alerts for a client that has shown no certificate."""
_REFUSES: Final = frozenset(
    {
        *("SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE"),
        *("SSLV3_ALERT_CERTIFICATE_REVOKED", "SSLV3_ALERT_CERTIFICATE_EXPIRED"),
        *("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "TLSV1_ALERT_UNKNOWN_CA"),
    }
)
"""Alerts for a client whose certificate does not do."""


def words_of(error: ssl.SSLError) -> str:
    """Return the reason of OpenSSL in words, such as "sslv3 alert bad certificate"."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, ENDED):
        return "the connection was closed"
    return (error.reason or str(error)).lower().replace("_", " ")


def words_of_broker(error: ssl.SSLError, tls: ssl.SSLObject) -> str:
    """Return the reason for a connection to a broker; an alert about Sluice's own certificate is explained."""
    words = words_of(error)
    if tls.cipher() is None:  # nothing was agreed on yet, so it is about ciphers or versions
        return words
    shows_certificate = getattr(tls.context, "shows_certificate", True)
    if not shows_certificate and error.reason in _DEMANDS:
        return f"{words}: the broker demands a client certificate ({_OWN_CERTIFICATE})"
    if shows_certificate and error.reason in _REFUSES:
        return f"{words}: the broker refuses Sluice's certificate ({_OWN_CERTIFICATE})"
    return words
