"""Requests that are expensive to parse for their size."""

import struct

from tests.support.messages import frames as f

LARGE_BYTES = 16 << 20


def metadata_of_many(version: int) -> bytes:
    """16 MiB of topics without a name."""
    if version >= 9:
        count = LARGE_BYTES // 2
        size = bytes(count + 1 >> shift & 0x7F | 0x80 for shift in (0, 7, 14)) + bytes(
            [count + 1 >> 21]
        )
        return f.request(f.METADATA, version, 1, size + b"\x01\x00" * count, tagged=True)
    count = LARGE_BYTES // 2
    return f.request(f.METADATA, version, 1, struct.pack(">i", count) + bytes(2 * count))


def produce_of_many() -> bytes:
    """16 MiB of topics without a name, each without a partition."""
    count = LARGE_BYTES // 6
    head = f.string(None) + struct.pack(">hi", -1, 1_000) + struct.pack(">i", count)
    return f.request(f.PRODUCE, 3, 1, head + bytes(6 * count))


def produce_of_tags(partitions: int = 8_000) -> bytes:
    """About 1 MB: a Produce whose partitions have no records, and sixty tagged fields each."""
    tags = bytes([60]) + b"".join(bytes([tag, 0]) for tag in range(60))
    listed = b"".join(struct.pack(">iB", each, 1) + tags for each in range(partitions))
    count = bytes([(partitions + 1) & 0x7F | 0x80, (partitions + 1) >> 7])
    body = b"\x00" + struct.pack(">hi", -1, 1_000) + b"\x02\x07orders" + count + listed + bytes(2)
    return f.request(f.PRODUCE, 9, 1, body, tagged=True)


def delete_topics(names: int, ident: int = 1) -> bytes:
    """Return a request that names so many topics, with empty names."""
    body = struct.pack(">i", names) + bytes(2 * names) + struct.pack(">i", 1_000)
    return f.request(f.DELETE_TOPICS, 1, ident, body)


def flood_of_tags() -> bytes:
    """Return frames with as many tagged fields as a header may have, each frame different."""
    tags = bytes([64]) + b"".join(bytes([tag, 0]) for tag in range(64))
    return b"".join(
        f.request(f.HEARTBEAT, 4, n, bytes(8), client_id=str(n), tagged=True, tags=tags)
        for n in range(5_000)
    )


def too_many_tags() -> bytes:
    """Return a frame with more tagged fields than a header may have, each with a size beyond the frame."""
    tags = b"\xff\xff\xff\xff\x0f" + b"".join(bytes([tag % 128, 127]) for tag in range(30_000))
    return f.request(f.METADATA, 9, 1, b"\x00", tagged=True, tags=tags)
