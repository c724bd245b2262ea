"""Guesses which protocol sent bytes that are no Kafka frame: mostly HTTP, TLS on a plaintext port, a load balancer."""

from __future__ import annotations

WANTS_TLS = "the listener wants TLS"
WANTS_SASL = "the listener wants SASL, and the client did not authenticate"
_MAX_USUAL_BYTES = 1 << 20
_HTTP = (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"DELE", b"CONN", b"PATC", b"HTTP")
PROXY_V1 = b"PROXY "
PROXY_V2 = b"\r\n\r\n\0\r\nQUIT\n"
"""The first bytes of the PROXY protocol's two versions."""
_BEGINNINGS = {
    PROXY_V1[:4]: "a PROXY header (listen.proxy_protocol)",
    PROXY_V2[:4]: "a PROXY header (listen.proxy_protocol)",
    b"PRI ": "HTTP/2",
    b"AMQP": "AMQP",
    b"SSH-": "SSH",
    b"PING": "Redis",
    b"-ERR": "Redis",
} | dict.fromkeys(_HTTP, "HTTP")
"""By four bytes, so that a hint never depends on where a read ended."""


def guess_protocol(head: bytes) -> str:
    """Return a hint for the log that begins with ": ", or "" for an unknown protocol."""
    name = _BEGINNINGS.get(head[:4])
    if name is not None:
        return f": this looks like {name}"
    # A TLS record: handshake (22) or alert (21), version 3.x (read as a size: 352 million and more).
    if len(head) >= 2 and head[0] in (0x15, 0x16) and head[1] == 0x03:
        return ": this looks like TLS on a plaintext port"
    if _is_mqtt(head):
        return ": this looks like MQTT"
    if head[:1] == b"*" and head[1:2].isdigit():  # RESP: an array of texts
        return ": this looks like Redis"
    return ""


def _is_mqtt(head: bytes) -> bool:
    """Return whether this is a CONNECT: its type, its length in one or two bytes, then the length of the name."""
    if len(head) < 4 or head[0] != 0x10:
        return False
    return head[2:4] in (b"\x00\x04", b"\x00\x06") if head[1] < 0x80 else head[3] == 0


def guess_at_tls_port(head: bytes) -> str:
    """Return a hint for the log about bytes that are no TLS, at a port that wants it; "" for an unknown protocol."""
    if len(head) >= 4 and int.from_bytes(head[:4], "big", signed=True) in range(_MAX_USUAL_BYTES):
        return ": this looks like Kafka without TLS (security.protocol=PLAINTEXT or SASL_PLAINTEXT)"
    return guess_protocol(head)
