"""The errors of OpenSSL in words."""

import ssl

import pytest

from proxy.tls.contexts import client_context, words_of, words_of_broker
from tests.support.shell.certificates import Authority


def refused(reason: str) -> ssl.SSLError:
    error = ssl.SSLError()
    error.reason = reason
    return error


def unverified(why: str) -> ssl.SSLError:
    error = ssl.SSLCertVerificationError()
    error.verify_message = why
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (refused("SSLV3_ALERT_BAD_CERTIFICATE"), "sslv3 alert bad certificate"),
        (
            unverified("certificate has expired"),
            "certificate verify failed: certificate has expired",
        ),
        (ssl.SSLZeroReturnError(), "the connection was closed"),
        (ssl.SSLEOFError(), "the connection was closed"),
    ],
)
def test_an_error_is_told_in_words(error: ssl.SSLError, words: str):
    """A failed verification names its cause; an end of the stream is no fault of TLS."""
    assert words_of(error) == words


def answered_by(
    version: ssl.TLSVersion, server: ssl.SSLContext, client: ssl.SSLContext
) -> tuple[ssl.SSLError, ssl.SSLObject]:
    """Return the error that the client gets, after its handshake in TLS 1.3, and its connection."""
    client.maximum_version = version
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(6):
        for end in (near, far):
            try:
                end.do_handshake()
                end.read(1)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                if end is near:
                    return error, near
    raise AssertionError("no error")


def server_of(authority: Authority, ca_file: str) -> ssl.SSLContext:
    own = authority.issue("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.cert_file, own.key_file)
    context.load_verify_locations(ca_file)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_broker_that_demands_a_certificate_is_named_as_that(tmp_path, version):
    """By the alert of either version, if Sluice has shown none; and one that refuses Sluice's."""
    authority, other = Authority(tmp_path / "a"), Authority(tmp_path / "b", "others")
    server = server_of(authority, str(authority.ca_file))
    words = words_of_broker(*answered_by(version, server, client_context()))
    assert words.endswith(": the broker demands a client certificate (upstream.tls.cert_file)")
    foreign = other.issue("sluice")
    client = client_context("", str(foreign.cert_file), str(foreign.key_file))
    words = words_of_broker(*answered_by(version, server, client))
    assert words == (
        "tlsv1 alert unknown ca: the broker refuses Sluice's certificate (upstream.tls.cert_file)"
    )


def test_a_broker_without_a_common_cipher_demands_no_certificate(tmp_path):
    """The same alert, before anything was agreed on."""
    server = server_of(Authority(tmp_path), str(Authority(tmp_path).ca_file))
    server.set_ciphers("AES128-SHA")
    words = words_of_broker(*answered_by(ssl.TLSVersion.TLSv1_2, server, client_context()))
    assert words == "sslv3 alert handshake failure"
