"""The frames of the hostile and the heavy, made by hand: to the byte as large as a case wants them.

Rules: one frame of each kind is made once and shared by all connections; every connection has one request in flight,
so all may carry the same correlation id. Versions are the oldest that Kafka 4 takes: Produce 3, Fetch 4.
"""

from __future__ import annotations

import struct
from typing import Final

from kafka.record.default_records import DefaultRecordBatchBuilder

from tests.support import frames as f

KIB: Final = 1 << 10
MIB: Final = 1 << 20
SMALL: Final = KIB
LARGE: Final = 16 * MIB
CLIENT_ID: Final = "memory"
FRAMING: Final = 4
"""Bytes of a frame's length, which stand before it and are not in its size; a pool counts them, too."""
TIMEOUT_MS: Final = 300_000
"""Of a produce: as patient as the clients of the burst."""
FETCH_WAIT_MS: Final = 5_000


def produce_frame(topic: str, size_bytes: int, partition: int = 0) -> bytes:
    """A Produce, acks=all, of one record; `size_bytes` is what its four bytes of length say, exactly.

    Raises:
        ValueError: no record is so small.
    """
    value_bytes = size_bytes
    for _ in range(8):  # the lengths of the lengths settle after a round or two
        made = _produce(topic, partition, bytes(max(0, value_bytes)))
        if len(made) - FRAMING == size_bytes:
            return made
        value_bytes += size_bytes - (len(made) - FRAMING)
    raise ValueError(f"no Produce for {topic} has {size_bytes} bytes")


def fetch_frame(topic: str, max_bytes: int) -> bytes:
    """A Fetch from the beginning of partition 0, as much as `max_bytes` at once."""
    body = struct.pack(">iiiib", -1, FETCH_WAIT_MS, 1, max_bytes, 0)
    body += struct.pack(">i", 1) + f.string(topic)
    body += struct.pack(">iiqi", 1, 0, 0, max_bytes)
    return f.request(f.FETCH, 4, 1, body, client_id=CLIENT_ID)


def api_versions_frame() -> bytes:
    """The smallest question there is: its answer shows that both connections stand."""
    return f.request(f.API_VERSIONS, 0, 1, client_id=CLIENT_ID)


def error_of(reply: bytes) -> int:
    """The error code in a Produce v3 reply of one partition, `reply` being without its length.

    Raises:
        ValueError: it is not such a reply.
    """
    try:
        (name_bytes,) = struct.unpack_from(">h", reply, 8)
        found: int = struct.unpack_from(">h", reply, 8 + 2 + name_bytes + 4 + 4)[0]
    except struct.error as error:
        raise ValueError(f"not a Produce reply: {reply[:40]!r}") from error
    return found


def _produce(topic: str, partition: int, value: bytes) -> bytes:
    batch = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, len(value) + KIB)
    batch.append(0, None, None, value, [])
    records = bytes(batch.build())
    body = (
        f.string(None)
        + struct.pack(">hii", -1, TIMEOUT_MS, 1)
        + f.string(topic)
        + struct.pack(">iii", 1, partition, len(records))
        + records
    )
    return f.request(f.PRODUCE, 3, 1, body, client_id=CLIENT_ID)
