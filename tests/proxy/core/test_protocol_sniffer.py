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
        (b"PRI * HTTP/2.0\r\n", "HTTP/2"),
        (b"PROXY TCP4 10.0.0.1", "a PROXY header"),
        (b"\r\n\r\n\x00\r\nQUIT\n", "a PROXY header"),
        (b"AMQP\x00\x00\x09\x01", "AMQP"),
        (b"AMQP\x03\x01\x00\x00", "AMQP"),
        (b"\x10\x2c\x00\x04MQTT\x04", "MQTT"),
        (b"\x10\x9d\x01\x00\x04MQTT", "MQTT"),
        (b"\x10\x12\x00\x06MQIsdp", "MQTT"),
        (b"*1\r\n$4\r\nPING\r\n", "Redis"),
        (b"*12\r\n$7\r\n", "Redis"),
        (b"PING\r\n", "Redis"),
        (b"-ERR unknown command", "Redis"),
    ],
)
def test_common_other_protocols_are_named(head, hint):
    """By their first four bytes, so that the line never depends on where a read ended."""
    assert guess_protocol(head).startswith(f": this looks like {hint}")
    assert guess_protocol(head[:4]) == guess_protocol(head)


def test_other_protocols_have_no_legal_frame_size():
    """Else they would be waited for, and not named."""
    for head in (b"PROX", b"\r\n\r\n", b"PRI ", b"AMQP", b"*1\r\n", b"\x10\x0c\x00\x04"):
        assert int.from_bytes(head[:4], "big") > 104_857_600


@pytest.mark.parametrize("head", [b"", b"\x16", b"\x00\x00\x00\x0a", b"\xff\xff\xff\xff"])
def test_too_few_bytes_and_kafka_frames_give_no_hint(head):
    """No protocol is named."""
    assert guess_protocol(head) == ""
