"""The strictness of the contexts, and their complaints about files that they cannot use."""

import ssl
from pathlib import Path

import pytest

from proxy.tls.contexts import (
    CertificateFileError,
    client_context,
    expiry_of,
    server_context,
)


def test_only_tls_1_2_and_later_with_ephemeral_keys_and_authenticated_ciphers(authority):
    """Renegotiation and compression are off."""
    own = authority.issue("localhost")
    server = server_context(str(own.cert_file), str(own.key_file))
    for context in (server, client_context(str(authority.ca_file))):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert context.options & ssl.OP_NO_COMPRESSION
        for cipher in context.get_ciphers():
            assert cipher["aead"]
            assert cipher["protocol"] == "TLSv1.3" or cipher["kea"] == "kx-ecdhe"


def test_brokers_are_verified_unless_the_setting_says_otherwise(authority):
    """The name of the certificate belongs to that."""
    verifying = client_context(str(authority.ca_file))
    assert (verifying.verify_mode, verifying.check_hostname) == (ssl.CERT_REQUIRED, True)
    trusting = client_context(verify=False)
    assert (trusting.verify_mode, trusting.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize(
    ("auth", "mode"),
    [
        ("none", ssl.CERT_NONE),
        ("requested", ssl.CERT_OPTIONAL),
        ("required", ssl.CERT_REQUIRED),
    ],
)
def test_client_auth_decides_whether_clients_show_a_certificate(authority, auth, mode):
    """The words are Kafka's."""
    own = authority.issue("localhost")
    made = server_context(str(own.cert_file), str(own.key_file), str(authority.ca_file), auth)
    assert made.verify_mode is mode


def test_a_file_that_cannot_be_used_is_named_with_its_setting_and_the_cause(
    authority, tmp_path: Path, missing: str
):
    """Missing, empty, of another kind, another certificate's key, an encrypted key."""
    own, other = authority.issue("a.test"), authority.issue("b.test")
    empty = tmp_path / "empty.pem"
    empty.write_bytes(b"")
    encrypted = tmp_path / "encrypted.key"
    encrypted.write_text(
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n"
    )
    cert, key = str(own.cert_file), str(own.key_file)
    for files, setting, path in (
        ((missing, key), "cert_file", missing),
        ((cert, missing), "key_file", missing),
        ((str(empty), key), "cert_file", str(empty)),
        ((cert, str(other.key_file)), "cert_file", cert),
        ((cert, str(encrypted)), "cert_file", cert),
        ((cert, key, str(empty)), "client_ca_file", str(empty)),
        ((cert, key, missing), "client_ca_file", missing),
    ):
        with pytest.raises(CertificateFileError) as caught:
            server_context(*files)
        assert str(caught.value).startswith(f"{setting} {path}: ")
    with pytest.raises(CertificateFileError, match="ca_file"):
        client_context(missing)


def test_the_end_of_a_certificate_is_read_from_its_file(authority, missing: str):
    """The first certificate of the chain counts."""
    own = authority.issue("localhost")
    decoded = ssl._ssl._test_decode_cert(str(own.cert_file))
    assert expiry_of(str(own.cert_file)) == ssl.cert_time_to_seconds(decoded["notAfter"]) * 1000
    for path in (missing, str(own.key_file)):
        with pytest.raises(CertificateFileError):
            expiry_of(path)
