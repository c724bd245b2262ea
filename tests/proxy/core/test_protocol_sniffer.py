"""Hints for the log when a frame size cannot be."""

from __future__ import annotations

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
def test_the_usual_strangers_are_named(head, hint):
    """HTTP, TLS (a record, or the alert of KIP-498) and SSH."""
    assert hint in guess_protocol(head)


@pytest.mark.parametrize("head", [b"", b"\x16", b"\x00\x00\x00\x0a", b"\xff\xff\xff\xff"])
def test_nothing_is_guessed_from_nothing(head):
    """Also not from a plain Kafka frame."""
    assert guess_protocol(head) == ""
