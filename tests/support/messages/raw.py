"""A client of small requests, for tests that compare exact bytes."""

import socket
import struct


def api_versions_request(correlation_id: int) -> bytes:
    """A whole ApiVersions v0 request without client id."""
    body = struct.pack(">hhih", 18, 0, correlation_id, -1)
    return struct.pack(">i", len(body)) + body


def receive(sock: socket.socket, count: int) -> bytes:
    """Return exactly `count` bytes."""
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        assert more, f"closed after {len(data)} of {count} bytes"
        data += more
    return data


def receive_until_closed(sock: socket.socket) -> bytes:
    """Return everything before the end, which may be a close or a reset."""
    data = b""
    try:
        while more := sock.recv(65536):
            data += more
    except ConnectionResetError:
        pass
    return data
