"""The heads of the record batches in a whole Produce body: size, codec, number of records, timestamps, producer.

Records are neither read nor decompressed. Source: RecordBatch of Kafka's message format (magic 2).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from wire.errors import WireError
from wire.produce import ProduceWalker
from wire.record_batches import BatchCounter

if TYPE_CHECKING:
    from wire.primitives import Buffer

MAX_BATCHES: Final = 1_000
"""Of one request; Kafka's clients send one for each partition."""
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""By the number in the attributes of a batch."""
_CODEC_BITS: Final = 7
_MAGIC_AT: Final = 16
_FIELDS: Final = Struct(">8xi4xb4xhiqqqhii")
_SIZED_FROM: Final = 12


class BatchHead(NamedTuple):
    """The head of a batch. Of the formats before magic 2 only `magic` is known; the other numbers are -1."""

    magic: int
    size_bytes: int = -1
    """All of the batch, as it is sent: compressed."""
    compression: str = ""
    """One of CODECS; empty if the number is unknown."""
    records: int = -1
    first_timestamp_ms: int = -1
    """Of the first record; -1 if it has none."""
    max_timestamp_ms: int = -1
    producer_id: int = -1
    """-1 if the producer is neither idempotent nor transactional."""
    topic: str | bytes = ""
    """The topic's name; the 16 bytes of its id from v13 on."""
    partition: int = -1


def read_batch_heads(body: bytes, version: int) -> list[BatchHead]:
    """Return the head of every batch in this body of a Produce, in its order.

    Raises WireError if the body cannot be valid, or has more than MAX_BATCHES.
    """
    reader = _HeadReader(version)
    end = len(body)
    if reader.feed(body, 0, end) != end or not reader.done:
        raise WireError(f"a Produce body of {end} bytes ends inside a field")
    return reader.collector.found


class _HeadCollector(BatchCounter):
    __slots__ = ("found", "place")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[BatchHead] = []
        self.place: tuple[str | bytes, int] = (
            "",
            -1,
        )  # topic and partition of the field that is read

    def _count(self, buf: Buffer, at: int) -> int:
        if len(self.found) >= MAX_BATCHES:
            raise WireError(f"a Produce has more than {MAX_BATCHES} batches")
        self.found.append(_head(buf, at, *self.place))
        return super()._count(buf, at)


class _HeadReader(ProduceWalker):
    """Feeds each records field to one collector."""

    __slots__ = ("collector",)

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.collector = _HeadCollector()

    def _partition(self, buf: Buffer, pos: int, end: int) -> int:
        after = super()._partition(buf, pos, end)
        if after >= 0:
            self.collector.begin()
            topic, partitions = self.topics[-1]
            self.collector.place = topic, partitions[-1]
            self._counter = self.collector if self._skip_bytes else None
        return after


def _head(buf: Buffer, at: int, topic: str | bytes, partition: int) -> BatchHead:
    if buf[at + _MAGIC_AT] != 2:
        return BatchHead(buf[at + _MAGIC_AT], topic=topic, partition=partition)
    length, magic, attributes, _, first_ms, max_ms, producer_id, _, _, records = (
        _FIELDS.unpack_from(buf, at)
    )
    number = attributes & _CODEC_BITS
    return BatchHead(
        magic,
        length + _SIZED_FROM,
        CODECS[number] if number < len(CODECS) else "",
        records,
        first_ms,
        max_ms,
        producer_id,
        topic,
        partition,
    )
