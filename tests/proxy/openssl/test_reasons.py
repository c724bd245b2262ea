"""The errors of OpenSSL in words."""

import ssl

import pytest

from proxy.openssl.reasons import words_of


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
