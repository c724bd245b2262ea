"""Hints for the log about the protocol of a client with an invalid frame size."""

import pytest

from proxy.core.protocol_sniffer import guess_protocol


@pytest.mark.parametrize(
    ("head", "hint"),
    [
        (b"GET / HT", "HTTP"),
        (b"POST", "HTTP"),
        (b"HTTP/1.1", "HTTP"),
        (b"\x16\x03\x01\x02", "TLS"),
        (b"\x15\x03\x03\x00\x02", "TLS"),
        (b"SSH-2.0-", "SSH"),
    ],
)
def test_common_other_protocols_are_named(head, hint):
    """They are HTTP, TLS (a record, or the alert of KIP-498) and SSH."""
    assert hint in guess_protocol(head)


@pytest.mark.parametrize("head", [b"", b"\x16", b"\x00\x00\x00\x0a", b"\xff\xff\xff\xff"])
def test_too_few_bytes_and_kafka_frames_give_no_hint(head):
    """No protocol is named."""
    assert guess_protocol(head) == ""
