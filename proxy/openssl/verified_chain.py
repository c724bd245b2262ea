"""The chain of certificates by which OpenSSL has verified a peer.

A resumed session has none: its peer was verified when the session was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy.openssl.certificate import expiry_ms

if TYPE_CHECKING:
    import ssl

_DER: Final = 2
"""ENCODING_DER of the module below ssl."""


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
