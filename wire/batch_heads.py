"""The heads of the record batches in a whole Produce body: size, codec, number of records, timestamps, producer.

Records are neither read nor decompressed. Source: RecordBatch of Kafka's message format (magic 2).
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from wire.errors import WireError
from wire.primitives import (
    ELEMENT_BUDGET,
    Buffer,
    array_count,
    bytes_length,
    compact_count,
    compact_length,
    int32_at,
    skip,
    spend,
    spend_tags,
    string_length,
)

MAX_BATCHES: Final = 1_000
"""Of one request; Kafka's clients send one for each partition."""
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""By the number in the attributes of a batch."""
MAGIC: Final = 2
HEAD_BYTES: Final = 61
_CODEC_BITS: Final = 7
_CODEC_NAMES: Final = (*CODECS, "", "", "")
_SIZE_AT: Final = 8
_MAGIC_AT: Final = 16
_OLD_HEAD_BYTES: Final = 17
"""Up to the magic, which is at the same place in every version."""
_FIELDS: Final = Struct(">8xi4xb4xhiqqqhii").unpack_from
_SIZED_FROM: Final = 12
_ACKS_BYTES: Final = 6
"""acks and the timeout."""
TRANSACTIONAL: Final = 3
FLEXIBLE: Final = 9
BY_ID: Final = 13
"""The first versions with a transactional id, with compact sizes and tags, and with topic ids."""


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


def read_batch_heads(body: Buffer, version: int) -> list[BatchHead]:
    """Return the head of every batch in this body of a Produce, in its order.

    A batch whose head is cut is not there; a broker refuses it. Raises WireError if the body cannot be valid, or has
    more than MAX_BATCHES, and BudgetError if it has more than ELEMENT_BUDGET topics, partitions and tagged fields.
    """
    try:
        return _read(body, version)
    except (IndexError, struct_error) as error:
        raise WireError(f"a Produce body of {len(body)} bytes ends inside a field") from error
    except UnicodeDecodeError as error:
        raise WireError("a Produce has a topic name that is not valid UTF-8") from error


def _read(body: Buffer, version: int) -> list[BatchHead]:
    """Read the body in one pass: with a walker that takes chunks of any size it costs three times as much."""
    is_flexible = version >= FLEXIBLE
    count_at = compact_count if is_flexible else array_count
    length_at = compact_length if is_flexible else string_length
    records_at = compact_length if is_flexible else bytes_length
    found: list[BatchHead] = []
    pos, end, budget = 0, len(body), ELEMENT_BUDGET
    if version >= TRANSACTIONAL:
        size, pos = length_at(body, pos, end)
        pos += max(size, 0)
    topics, pos = _counted(*count_at(body, pos + _ACKS_BYTES, end))
    budget = spend(budget, topics)
    for _ in range(topics):
        topic: str | bytes
        if version >= BY_ID:
            topic, pos = bytes(body[pos : pos + 16]), skip(pos, 16, end)
        else:
            size, pos = length_at(body, pos, end)
            topic = str(memoryview(body)[pos : pos + _counted(size, pos)[0]], "utf-8")
            pos += size
        partitions, pos = _counted(*count_at(body, pos, end))
        budget = spend(budget, partitions)
        for _ in range(partitions):
            partition: int = int32_at(body, pos)[0]
            size, pos = records_at(body, pos + 4, end)
            if size > 0:
                _heads_in(body, pos, pos + size, topic, partition, found)
                pos += size
            if is_flexible:
                pos, budget = spend_tags(body, pos, end, budget)
        if is_flexible:
            pos, budget = spend_tags(body, pos, end, budget)
    if is_flexible:
        pos, budget = spend_tags(body, pos, end, budget)
    if pos < end:
        raise WireError(f"{end - pos} bytes follow the last field of a Produce request")
    return found


def _counted(count: int, pos: int) -> tuple[int, int]:
    """Return both, unless the array or string is null."""
    if count < 0:
        raise WireError(f"count {count} of a Produce request is outside 0..{0x7FFF_FFFF}")
    return count, pos


def _heads_in(
    body: Buffer, at: int, stop: int, topic: str | bytes, partition: int, found: list[BatchHead]
) -> None:
    """Append the heads of the batches in one records field."""
    while stop - at >= _OLD_HEAD_BYTES:
        is_old = body[at + _MAGIC_AT] != MAGIC
        if not is_old and stop - at < HEAD_BYTES:
            return
        if len(found) >= MAX_BATCHES:
            raise WireError(f"a Produce has more than {MAX_BATCHES} batches")
        if is_old:
            found.append(BatchHead(body[at + _MAGIC_AT], topic=topic, partition=partition))
            at += max(int32_at(body, at + _SIZE_AT)[0] + _SIZED_FROM, _OLD_HEAD_BYTES)
            continue
        size, magic, attributes, _, first_ms, max_ms, producer_id, _, _, records = _FIELDS(body, at)
        size += _SIZED_FROM
        found.append(
            BatchHead(
                magic,
                size,
                _CODEC_NAMES[attributes & _CODEC_BITS],
                records,
                first_ms,
                max_ms,
                producer_id,
                topic,
                partition,
            )
        )
        at += max(HEAD_BYTES, size)
