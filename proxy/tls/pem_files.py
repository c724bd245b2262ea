"""Certificates and keys in PEM files: what is wrong with them, and what is in them.

OpenSSL reads and judges them, as it does when they are used. To see a certificate as its peers do, both ends of a
handshake are made in memory.
"""

from __future__ import annotations

import re
import ssl
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from proxy.config.small_files import FileError, read_small_file
from proxy.tls.contexts import words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PEM_BYTES: Final = 4 << 20
"""Bundles of all public authorities have 0.3 MiB."""
CERTIFICATES: Final = "certificates (PEM)"
KEY: Final = "a private key (PEM, not encrypted)"
_IS_CERTIFICATE: Final = re.compile(
    r"-----BEGIN (?:X509 )?CERTIFICATE-----.+?-----END (?:X509 )?CERTIFICATE-----", re.DOTALL
)
_IS_KEY: Final = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----")
_OTHER_KEY: Final = frozenset(
    {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}
)
"""OpenSSL's reasons for a key that is not that of the certificate."""
_NO_CHECK_TIME: Final = ssl.VerifyFlags(0x200000)
"""X509_V_FLAG_NO_CHECK_TIME: the caller judges the dates."""
_ROUNDS: Final = 6
"""More than a handshake needs."""


class KeyFileError(FileError):
    """A private key that cannot be used."""


class Certificate(NamedTuple):
    """A certificate. Times are seconds since the epoch."""

    subject: str
    names: tuple[str, ...]
    """The hosts and addresses that it is for."""
    not_before_s: float
    not_after_s: float


def read_authorities(ca_file: str) -> list[Certificate]:
    """Return the certificates of authorities in a file. Raises FileError if it has no certificate at all."""
    return _authorities_of(_texts(ca_file), ca_file)


def has_system_authorities() -> bool:
    """Return whether OpenSSL finds any certificates of authorities where it looks by default."""
    found = ssl.get_default_verify_paths()
    places = map(
        Path, filter(None, (found.cafile, found.capath))
    )  # of a file and a folder, those that exist
    return any(place.is_file() or any(place.iterdir()) for place in places)


class CertificateChain:
    """A certificate chain and its private key.

    Raises FileError if the certificates cannot be used, KeyFileError if the key cannot.
    """

    def __init__(self, cert_file: str, key_file: str, *, is_server: bool) -> None:
        self._files = (cert_file, key_file)
        self._is_server = is_server
        texts = _texts(cert_file)
        self._first = texts[0]
        self.authorities = _authorities_of(texts, cert_file)
        """Those above the first certificate."""
        try:
            key = read_small_file(key_file, MAX_PEM_BYTES, KEY).decode("latin-1")
        except FileError as error:
            raise KeyFileError(error.found, error.expected) from None
        if not _IS_KEY.search(key):
            raise KeyFileError(f"{key_file!r}, which has no private key (PEM)", KEY)
        self._context(ssl.PROTOCOL_TLS_SERVER)

    def certificate(self) -> Certificate:
        """Return the first certificate. Raises FileError if peers refuse it, for its purpose say."""
        try:
            return self._shown_to_peer("")
        except ssl.SSLError as error:
            role = "server" if self._is_server else "client"
            words = f"{self._files[0]!r}, which peers refuse: {words_of(error)}"
            raise FileError(words, f"a certificate for a TLS {role}") from None

    def is_for(self, host: str) -> bool:
        """Return whether clients that connect to this host or address accept the certificate."""
        try:
            self._shown_to_peer(host)
        except ssl.SSLCertVerificationError:
            return False
        return True

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        cert_file, key_file = self._files

        def refuse() -> NoReturn:  # else OpenSSL would ask on the terminal
            raise KeyFileError(f"{key_file!r}, which is encrypted", KEY)

        try:
            context.load_cert_chain(cert_file, key_file, refuse)
        except ssl.SSLError as error:
            if error.reason in _OTHER_KEY:
                expected = f"the key of the first certificate in {cert_file!r}"
                raise KeyFileError(f"{key_file!r}, another certificate's key", expected) from None
            if error.reason is None:
                raise KeyFileError(f"{key_file!r}, which OpenSSL cannot read", KEY) from None
            raise FileError(f"{cert_file!r}: {words_of(error)}", CERTIFICATES) from None
        return context

    def _shown_to_peer(self, host: str) -> Certificate:
        """Return the first certificate as a peer gets it. Raises SSLCertVerificationError if the peer refuses it."""
        server, client = map(self._context, (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT))
        peer = client if self._is_server else server
        peer.verify_mode = ssl.CERT_REQUIRED
        peer.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
        peer.load_verify_locations(cadata=self._first)
        peer.check_hostname = bool(host)
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = (
            client.wrap_bio(to_client, to_server, server_hostname=host or None),
            server.wrap_bio(to_server, to_client, server_side=True),
        )
        for _ in range(_ROUNDS):
            for end in ends:
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
        shown = ends[0 if self._is_server else 1].getpeercert()
        return _certificate(shown or {})


def _texts(file: str) -> list[str]:
    text = read_small_file(file, MAX_PEM_BYTES, CERTIFICATES).decode("latin-1")
    found = _IS_CERTIFICATE.findall(text)
    if not found:
        raise FileError(f"{file!r}, which has no certificate (PEM)", CERTIFICATES)
    return found


def _authorities_of(texts: list[str], file: str) -> list[Certificate]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for place, text in enumerate(texts):
        try:
            context.load_verify_locations(cadata=text)
        except ssl.SSLError as error:
            found = f"{file!r}, whose certificate {place + 1} cannot be read: {words_of(error)}"
            raise FileError(found, CERTIFICATES) from None
    return [_certificate(each) for each in context.get_ca_certs()]


def _certificate(shown: Mapping[str, object]) -> Certificate:
    """Return a certificate from the ssl module's form."""
    fields: dict[str, Any] = dict(shown)
    subject = ", ".join(f"{key}={value}" for part in fields["subject"] for key, value in part)
    return Certificate(
        subject,
        tuple(value for _, value in fields.get("subjectAltName", ())),
        ssl.cert_time_to_seconds(fields["notBefore"]),
        ssl.cert_time_to_seconds(fields["notAfter"]),
    )
