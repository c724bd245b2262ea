"""Certificates for tests: an authority of its own, and what it signs, as PEM files.

The keys are P-256 in PKCS#8, the one form that OpenSSL, librdkafka and Kafka's PEM keystores all read.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate chain and its private key."""

    cert_file: Path
    key_file: Path

    @property
    def both_file(self) -> Path:
        """Return one file with key and chain, as Kafka's PEM keystores want it."""
        file = self.cert_file.with_suffix(".both.pem")
        file.write_bytes(self.key_file.read_bytes() + self.cert_file.read_bytes())
        return file


@dataclass(slots=True)
class Authority:
    """A certificate authority; its files are below `directory`, which it makes."""

    directory: Path
    name: str = "Sluice's tests"
    ca_file: Path = field(init=False)
    _ca: trustme.CA = field(init=False)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._ca = trustme.CA(organization_name=self.name)
        self.ca_file = self.directory / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.ca_file))

    def issue(
        self,
        *identities: str,
        common_name: str | None = None,
        file_name: str = "",
        not_after: datetime | None = None,
    ) -> Pair:
        """Return a certificate for these host names or addresses; its files are called by the first, or `file_name`.

        The subject is `CN=common_name, OU=..., O=...` of trustme.
        """
        leaf = self._ca.issue_cert(*identities, common_name=common_name, not_after=not_after)
        key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
        stem = file_name or identities[0].replace("*", "any")
        pair = Pair(self.directory / f"{stem}.crt", self.directory / f"{stem}.key")
        pair.cert_file.write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
        pair.key_file.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        return pair

    def sign(
        self,
        common_name: str,
        *names: x509.GeneralName,
        not_after: datetime | None = None,
        file_name: str = "",
    ) -> Pair:
        """Return a client's certificate with the subject `CN=common_name` and these alternative names."""
        ca_key = load_pem_private_key(self._ca.private_key_pem.bytes(), None)
        assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        begin = datetime(2020, 1, 1, tzinfo=UTC)
        made = x509.CertificateBuilder(
            x509.load_pem_x509_certificate(self._ca.cert_pem.bytes()).subject,
            x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)]),
            key.public_key(),
            x509.random_serial_number(),
            begin,
            not_after or datetime(2100, 1, 1, tzinfo=UTC),
        )
        if names:
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        stem = file_name or common_name
        pair = Pair(self.directory / f"{stem}.crt", self.directory / f"{stem}.key")
        pair.cert_file.write_bytes(made.sign(ca_key, SHA256()).public_bytes(Encoding.PEM))
        pair.key_file.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        return pair
