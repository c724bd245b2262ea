"""Request frames of an exact size.

All connections share one frame of each kind: each has one request in flight, so that the correlation id may repeat.
The versions are the oldest of Kafka 4: Produce 3, Fetch 4.
"""

import struct
from typing import Final

from kafka.record.default_records import DefaultRecordBatchBuilder  # type: ignore[import-untyped]

from tests.support.messages import frames as f

KIB: Final = 1 << 10
MIB: Final = 1 << 20
SMALL: Final = KIB
LARGE: Final = 16 * MIB
CLIENT_ID: Final = "memory"
FRAMING: Final = 4
"""The bytes of a frame's length field, which are not part of its size but are charged to the pool."""
TIMEOUT_MS: Final = 300_000
"""The timeout of a Produce, as long as the clients of the burst wait."""
FETCH_WAIT_MS: Final = 5_000


def produce_frame(topic: str, size_bytes: int, partition: int = 0) -> bytes:
    """Return a Produce with acks=all and one record, whose length field is exactly `size_bytes`.

    Raises:
        ValueError: there is no such Produce.
    """
    value_bytes = size_bytes
    for _ in range(8):  # the size of the length fields is stable after one or two passes
        made = _produce(topic, partition, bytes(max(0, value_bytes)))
        if len(made) - FRAMING == size_bytes:
            return made
        value_bytes += size_bytes - (len(made) - FRAMING)
    raise ValueError(f"no Produce for {topic} has {size_bytes} bytes")


def fetch_frame(topic: str, max_bytes: int) -> bytes:
    """Return a Fetch from the start of partition 0, of at most `max_bytes`."""
    body = struct.pack(">iiiib", -1, FETCH_WAIT_MS, 1, max_bytes, 0)
    body += struct.pack(">i", 1) + f.string(topic)
    body += struct.pack(">iiqi", 1, 0, 0, max_bytes)
    return f.request(f.FETCH, 4, 1, body, client_id=CLIENT_ID)


def error_of(reply: bytes) -> int:
    """Return the error code of a Produce v3 reply of one partition; `reply` has no length field.

    Raises:
        ValueError: it is another reply.
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
