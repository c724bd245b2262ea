"""The reader of a Fetch reply's topics: their names, partitions, bytes and records."""

from itertools import pairwise

import pytest
from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, messages_of
from tests.support.messages.record_batches import batch
from wire import codec
from wire.apis import ApiKey
from wire.fetch_topics import FetchTopics
from wire.primitives import (
    INT16,
    INT32,
    INT64,
    encode_compact,
    encode_compact_count,
    encode_string,
)

VERSIONS = range(4, 19)


def frame_of(version: int, body: bytes) -> bytes:
    payload = INT32.pack(7) + (b"\x00" if version >= 12 else b"") + body
    return INT32.pack(len(payload)) + payload


def read(version: int, frame: bytes, cuts=()) -> FetchTopics:
    """Return a reader that was fed the frame cut at these places."""
    reader = FetchTopics(version)
    for start, end in pairwise(sorted({0, len(frame), *cuts})):
        reader.feed(bytearray(b"\x00" + frame[start:end] + b"\x07stale"), 1, 1 + end - start)
    return reader


def uses(reader: FetchTopics) -> list[tuple]:
    return [
        (
            use.topic if reader.shape.by_id else use.topic.decode(),
            use.partitions,
            use.size_bytes,
            use.batches,
            use.records,
        )
        for use in reader.per_topic
    ]


@for_each(VERSIONS, examples=15)
def test_any_chunking_says_what_the_codec_reads(version, data):
    """Any reply of any version, cut anywhere, gives the topics, partitions and bytes that the codec reads."""
    message = data.draw(messages_of(codec.response_shape(api_of(ApiKey.FETCH, version))))
    frame = frame_of(version, codec.encode(message))
    cuts = data.draw(st.sets(st.integers(0, len(frame)), max_size=12))

    for reader in (read(version, frame), read(version, frame, cuts)):
        assert reader.done
        assert not reader.broken
        assert [use[:3] for use in uses(reader)] == [
            (
                (topic.topic_id.bytes if topic.topic_id else bytes(16))
                if version >= 13
                else topic.topic,
                len(topic.partitions),
                sum(len(partition.records or b"") for partition in topic.partitions),
            )
            for topic in message.responses
        ]


@for_each(VERSIONS, examples=15)
def test_damage_raises_nothing(version, data):
    """A reader of overwritten bytes reads or gives up without raising, the same in one chunk and byte by byte."""
    shape = codec.response_shape(api_of(ApiKey.FETCH, version))
    frame = bytearray(frame_of(version, codec.encode(data.draw(messages_of(shape)))))
    frame[data.draw(st.integers(8, len(frame) - 1))] = data.draw(st.integers(0, 255))

    whole = read(version, bytes(frame))
    pieces = read(version, bytes(frame), range(len(frame)))

    assert (pieces.done, pieces.broken) == (whole.done, whole.broken)
    assert whole.broken or uses(pieces) == uses(whole)


def flexible_partition(index: int, field: bytes | None, tags: bytes = b"\x00") -> bytes:
    """Return a partition of v13 to v17, with an aborted transaction."""
    aborted = encode_compact_count(1) + INT64.pack(1) + INT64.pack(2) + tags
    return (
        INT32.pack(index) + INT16.pack(0) + 3 * INT64.pack(9) + aborted + INT32.pack(-1)
        + (b"\x00" if field is None else encode_compact(field)) + tags
    )  # fmt: skip


@pytest.mark.parametrize("step", [1, 11, 100, 10**6])
def test_records_are_counted_by_topic(step):
    """v17 with real batches under a topic id, the last one cut,
    and tags everywhere: chunks of any size give the same count.
    """
    tags = b"\x01\x07\xe8\x07" + b"t" * 1000
    fields = [batch(3) + batch(4), None, batch(9)[:-5]]
    topic_id = bytes(range(16))
    body = INT32.pack(0) + INT16.pack(0) + INT32.pack(0) + encode_compact_count(1) + topic_id
    body += encode_compact_count(3)
    body += b"".join(flexible_partition(*each, tags) for each in enumerate(fields))
    frame = frame_of(17, body + tags + tags)

    reader = read(17, frame, range(0, len(frame), step))

    assert reader.done
    size_bytes = len(batch(3) + batch(4)) + len(batch(9)) - 5
    assert uses(reader) == [(topic_id, 3, size_bytes, 3, 16)]


def test_the_first_version_is_read_without_later_fields():
    """A v0 reply begins with topics; a partition has only index, error, high watermark and records."""
    body = INT32.pack(1) + encode_string(b"orders") + INT32.pack(1)
    body += INT32.pack(0) + INT16.pack(0) + INT64.pack(9)
    body += INT32.pack(len(batch(2, magic=0))) + batch(2, magic=0)
    frame = frame_of(0, body)

    reader = read(0, frame, range(len(frame)))

    assert reader.done
    assert uses(reader) == [("orders", 1, len(batch(2, magic=0)), 2, 2)]


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (4, INT16.pack(-1)),
        (12, b"\x00"),
        (12, encode_compact_count(0x8000)),
        (12, b"\xff\xff\xff\xff\x1f"),
        (12, b"\x80\x80\x80\x80\x80\x00"),
    ],
    ids=["null", "compact null", "too long", "33 bits", "6 bytes"],
)
@pytest.mark.parametrize("step", [1, 10**6])
def test_a_topic_name_of_no_valid_length_ends_the_reading(version, name, step):
    """The reply itself is the client's to judge; its topics are not known."""
    head = bytes(4) if version < 7 else bytes(10)
    count = encode_compact_count(1) if version >= 12 else INT32.pack(1)
    frame = frame_of(version, head + count + name + b"t" * 0x9000)
    reader = read(version, frame, range(0, min(len(frame), 100), step))
    assert reader.broken
    assert uses(reader) == []


def test_a_chunk_of_empty_partitions_is_read_and_one_of_tags_is_given_up():
    """One feed takes a bounded number of steps; the reader says whether it gave up."""
    empty = INT32.pack(0) + INT16.pack(0) + INT64.pack(0) * 3 + b"\x01" + INT32.pack(-1) + b"\x01"
    head = bytes(10) + encode_compact_count(1) + encode_compact(b"orders")
    for tags, is_broken in (
        (b"\x00", False),
        (b"\x3c" + b"".join(bytes((n, 0)) for n in range(60)), True),
    ):
        partition = empty + tags
        count = (256 << 10) // len(partition)
        reader = read(
            12, frame_of(12, head + encode_compact_count(count) + partition * count + bytes(2))
        )
        assert reader.broken is is_broken
        assert reader.done is not is_broken
