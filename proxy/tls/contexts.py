"""The contexts of TLS, made from the files of the settings; OpenSSL's errors in words, and the chains it has verified.

Rules:
- TLS 1.2 or later, ephemeral keys and authenticated ciphers only, no renegotiation, no compression.
- Every certificate of `ca_file` is trusted by itself, be it a server or an intermediate, as in Kafka's trust store.
- A client that offers only protocols of the web (ALPN) is refused: a browser can be made to send its secrets to
  another server's port (ALPACA).
- Each load makes a new context, with new keys for session tickets: no session outlives the certificates and
  authorities that it was made with.
- A resumed session has no chain: its peer was verified when the session was made.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from proxy.tls.certificate import expiry_ms

if TYPE_CHECKING:
    from collections.abc import Callable


T = TypeVar("T")
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2; all of TLS 1.3 are authenticated."""
_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_IGNORE_UNEXPECTED_EOF: Final = 1 << 7
"""An option of OpenSSL 3 that Python 3.11 has no name of."""
_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_OURS: Final = "kafka"
WEB_PROTOCOLS: Final = ("h2", "http/1.1", "http/1.0", "spdy/3", "h3")
"""Chosen only if the client offers nothing else, so that it can be refused."""

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
_DER: Final = 2
"""ENCODING_DER of the module below ssl."""


class ClientContext(ssl.SSLContext):
    """A context for connections to brokers. `shows_certificate`: whether Sluice has one of its own for them."""

    shows_certificate = False


class CertificateFileError(OSError):
    """A file of certificates or keys that cannot be used. The message has the setting, the path and the cause."""


def server_context(
    cert_file: str, key_file: str, client_ca_file: str = "", client_auth: str = "none"
) -> ssl.SSLContext:
    """Return the context of the listener. Raises CertificateFileError.

    `client_auth`: none, requested or required, as Kafka's ssl.client.auth.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _harden(context)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols([_OURS, *WEB_PROTOCOLS])
    _load_chain(context, cert_file, key_file)
    if client_ca_file:
        _load("client_ca_file", client_ca_file, context.load_verify_locations)
    context.verify_mode = _VERIFY[client_auth]
    return context


def client_context(
    ca_file: str = "",
    cert_file: str = "",
    key_file: str = "",
    *,
    verify: bool = True,
    kind: type[ssl.SSLContext] = ClientContext,
) -> ssl.SSLContext:
    """Return the context for connections to brokers; an empty path is absent. Raises CertificateFileError."""
    context = kind(ssl.PROTOCOL_TLS_CLIENT)
    _harden(context)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca_file:
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        _load("ca_file", ca_file, context.load_verify_locations)
    else:
        context.load_default_certs()
    if cert_file:
        _load_chain(context, cert_file, key_file)
        if isinstance(context, ClientContext):
            context.shows_certificate = True
    return context


def expiry_of(cert_file: str) -> int:
    """Return when the first certificate of a file ends, in ms since the epoch. Raises CertificateFileError."""
    return _load("cert_file", cert_file, lambda path: expiry_ms(_first(path)))


def _first(path: str) -> bytes:
    _, begin, rest = Path(path).read_text("ascii").partition(_BEGIN)
    body, end, _ = rest.partition(_END)
    return ssl.PEM_cert_to_DER_cert(begin + body + end)


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.options |= _IGNORE_UNEXPECTED_EOF


def _load_chain(context: ssl.SSLContext, cert_file: str, key_file: str) -> None:
    _load("key_file", key_file, _read)  # else the error of the pair does not tell which is missing
    _load(
        "cert_file",
        cert_file,
        lambda path: context.load_cert_chain(path, key_file, _refuse_password),
    )


def _read(path: str) -> None:
    Path(path).read_bytes()


def _refuse_password() -> str:
    """Take the place of a prompt on the terminal."""
    raise ValueError("the key is encrypted")


def _load(setting: str, path: str, load: Callable[[str], T]) -> T:
    try:
        return load(path)
    except ssl.SSLError as error:
        raise CertificateFileError(f"{setting} {path}: {words_of(error)}") from error
    except OSError as error:
        raise CertificateFileError(f"{setting} {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise CertificateFileError(f"{setting} {path}: {error}") from error


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


def chain_end_ms(tls: ssl.SSLObject) -> int | None:
    """Return when the first certificate of the peer's chain ends, in ms since the epoch; None without a certificate.

    Raises CertificateError for a certificate that cannot be read.
    """
    shown = tls.getpeercert(binary_form=True)
    return None if shown is None else min(map(expiry_ms, (shown, *_verified(tls))))


def _verified(tls: ssl.SSLObject) -> list[bytes]:
    public: Any = tls
    if hasattr(public, "get_verified_chain"):  # since Python 3.13
        chain: list[bytes] = public.get_verified_chain()
        return chain
    found = public._sslobj.get_verified_chain() or ()  # noqa: SLF001 - there is no other way before
    return [each.public_bytes(_DER) for each in found]
