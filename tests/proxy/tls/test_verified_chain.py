"""The chain by which OpenSSL has verified a peer, over real handshakes in memory."""

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from proxy.tls.contexts import chain_end_ms, client_context, server_context

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)


def ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def signed(
    name: str,
    ends: datetime,
    issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None = None,
    *,
    is_authority: bool = True,
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return a certificate for `localhost` and its key; without an issuer it signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    by, by_key = issuer or (subject, key)
    made = (
        x509.CertificateBuilder(
            by, subject, key.public_key(), x509.random_serial_number(), NOW - DAY, ends
        )
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    )
    return made.sign(by_key, SHA256()), key


class Files:
    """A server's chain of root, intermediate and leaf, each with an end of its own."""

    def __init__(self, directory: Path, root: datetime, middle: datetime, leaf: datetime) -> None:
        top, top_key = signed("root", root)
        inner, inner_key = signed("middle", middle, (top.subject, top_key))
        own, own_key = signed("leaf", leaf, (inner.subject, inner_key), is_authority=False)
        self.root, self.chain, self.key = (directory / each for each in ("root", "chain", "key"))
        self.root.write_bytes(top.public_bytes(Encoding.PEM))
        self.chain.write_bytes(own.public_bytes(Encoding.PEM) + inner.public_bytes(Encoding.PEM))
        self.key.write_bytes(
            own_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )

    def contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """Return the contexts of the server and of a client that trusts the root."""
        return server_context(str(self.chain), str(self.key)), client_context(str(self.root))


def shake(
    server_side: ssl.SSLContext,
    client_side: ssl.SSLContext,
    session: ssl.SSLSession | None = None,
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Return the ends of a connection, server first, after the handshake and one byte to the client."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(up, down, server_side=True)
    client = client_side.wrap_bio(down, up, server_hostname="localhost", session=session)
    for _ in range(5):
        for each in (client, server):
            with suppress(ssl.SSLWantReadError):
                each.do_handshake()
    server.write(b"x")
    assert client.read(1) == b"x"
    return server, client


@pytest.mark.parametrize(
    ("root", "middle", "leaf"), [(1, 2, 3), (3, 1, 2), (2, 3, 1)], ids=["root", "middle", "leaf"]
)
def test_the_first_certificate_of_the_chain_to_end_counts(
    tmp_path: Path, root: int, middle: int, leaf: int
) -> None:
    """Also if it is not the peer's own, or one that the peer did not send."""
    server, client = shake(
        *Files(tmp_path, NOW + root * DAY, NOW + middle * DAY, NOW + leaf * DAY).contexts()
    )

    assert chain_end_ms(client) == ms(NOW + DAY)
    assert chain_end_ms(server) is None  # the client has shown none


def test_a_resumed_session_has_the_end_of_the_peers_own_certificate(tmp_path: Path) -> None:
    """Its peer was verified when the session was made, so it has no chain."""
    own, client_side = Files(tmp_path, NOW + DAY, NOW + DAY, NOW + 2 * DAY).contexts()
    client_side.maximum_version = ssl.TLSVersion.TLSv1_2
    _, first = shake(own, client_side)
    _, again = shake(own, client_side, first.session)

    assert again.session_reused
    assert chain_end_ms(again) == ms(NOW + 2 * DAY)
