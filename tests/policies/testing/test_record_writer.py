"""Batches that the bench writes are read by kafka-python, with the real codecs."""

import pytest
from kafka.record import MemoryRecords

from policies.testing import record_batch


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("size_bytes", [0, 1, 300_000])
def test_a_client_reads_the_records(compression: str, size_bytes: int) -> None:
    """Values, time and checksum are right, for every codec and for values of several blocks."""
    values = [b"v" * size_bytes, b"second"]

    data = record_batch(values, compression=compression, timestamp_ms=1_700_000_000_000)
    batch = MemoryRecords(data).next_batch()

    assert batch.validate_crc()
    assert [(each.value, each.timestamp) for each in batch] == [
        (value, 1_700_000_000_000) for value in values
    ]


def test_the_producer_is_in_the_head() -> None:
    """Its id, and whether the batch belongs to a transaction."""
    batch = MemoryRecords(record_batch([b"a"], producer_id=7, transactional=True)).next_batch()

    assert batch.producer_id == 7
    assert batch.is_transactional


def test_an_unknown_codec_is_refused() -> None:
    """The message lists the known ones."""
    with pytest.raises(ValueError, match="'brotli', expected one of none, gzip"):
        record_batch([b"a"], compression="brotli")
