"""Record batches as kafka-python writes them, of every magic and codec."""

from kafka.record import MemoryRecordsBuilder

NONE, GZIP = 0, 1


def batch(records: int, *, magic: int = 2, codec: int = NONE, size_bytes: int = 20) -> bytes:
    """One batch (magic 2), or one message set, of so many records."""
    builder = MemoryRecordsBuilder(magic=magic, compression_type=codec, batch_size=1 << 30)
    for place in range(records):
        builder.append(timestamp=1_700_000_000_000 + place, key=None, value=b"v" * size_bytes)
    builder.close()
    return bytes(builder.buffer())
