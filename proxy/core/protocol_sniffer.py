"""Guesses which protocol sent bytes that are no Kafka frame: mostly HTTP, or TLS on a plaintext port."""

from __future__ import annotations

WANTS_TLS = "the listener wants TLS"
WANTS_SASL = "the listener wants SASL, and the client did not authenticate"
_MAX_USUAL_BYTES = 1 << 20
_HTTP = (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"DELE", b"CONN", b"PATC", b"HTTP", b"PRI ")


def guess_protocol(head: bytes) -> str:
    """Return a hint for the log that begins with ": ", or "" for an unknown protocol."""
    if head.startswith(_HTTP):
        return ": this looks like HTTP"
    # A TLS record: handshake (22) or alert (21), version 3.x (read as a size: 352 million and more).
    if len(head) >= 2 and head[0] in (0x15, 0x16) and head[1] == 0x03:
        return ": this looks like TLS on a plaintext port"
    if head.startswith(b"SSH-"):
        return ": this looks like SSH"
    return ""


def guess_at_tls_port(head: bytes) -> str:
    """Return a hint for the log about bytes that are no TLS, at a port that wants it; "" for an unknown protocol."""
    if len(head) >= 4 and int.from_bytes(head[:4], "big", signed=True) in range(_MAX_USUAL_BYTES):
        return ": this looks like Kafka without TLS (security.protocol=PLAINTEXT or SASL_PLAINTEXT)"
    return guess_protocol(head)
