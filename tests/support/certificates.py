"""Certificates for tests: an authority of its own, and what it signs, as PEM files.

The keys are P-256 in PKCS#8, the one form that OpenSSL, librdkafka and Kafka's PEM keystores all read.
"""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import trustme
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
