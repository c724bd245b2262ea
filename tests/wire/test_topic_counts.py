"""Whole, ordinary topics are counted in one go: as the readers of single elements count them, or not at all."""

import pytest
from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, messages_of
from tests.support.messages.record_batches import batch
from tests.support.messages.waiting import body_of
from wire import codec, topic_runs
from wire.apis import ApiKey
from wire.errors import WireError
from wire.fetch_topics import FetchTopics
from wire.primitives import (
    INT16,
    INT32,
    INT64,
    encode_compact,
    encode_compact_count,
    encode_count,
    encode_string,
)
from wire.produce import read_acks
from wire.produce_topics import ProduceTopics
from wire.record_batches import TopicCount
from wire.topic_counts import (
    REPLY_SHAPES,
    REQUEST_SHAPES,
    TopicShape,
    count_reply,
    count_request,
)

REQUESTS = range(3, 14)
REPLIES = range(4, 16)
MANY = 1 << 20
STALE = b"\x00\x01\x07stale"
FIELDS = [batch(3) + batch(5), batch(2), batch(40, size_bytes=900), batch(1)]
"""Records fields, of one, two and three bytes of length."""


def named(version: int, name: bytes) -> bytes:
    """Return the name, or in later versions an id of 16 bytes."""
    return name.ljust(16, b".")[:16] if version >= 13 else name


def seen(counts: list[TopicCount] | None) -> list[tuple] | None:
    return counts and [
        (each.topic, each.partitions, each.size_bytes, each.batches, each.records)
        for each in counts
    ]


def request_counts(version: int, body: bytes, end: int, most: int = MANY) -> list[tuple] | None:
    """Return what is counted in one go in the request body that ends at `end`."""
    (_, after_acks) = read_acks(body, 0, len(body), version)
    buf, at, shape = bytearray(body + STALE), after_acks + 4, REQUEST_SHAPES[version]
    found = seen(count_request(shape, buf, at, end, most))
    for topic in topics_of(found):
        after, *counted = summed(shape, topic, buf, at, end, most)
        is_whole = after >= 0 and after == end - shape.compact and not any(buf[after:end])
        assert (found == [(topic, *counted)]) == is_whole
    return found


def reply_counts(version: int, frame: bytes, end: int, most: int = MANY) -> list[tuple] | None:
    """Return what is counted in one go in the reply frame that ends at `end`."""
    buf, shape = bytearray(b"x" + frame + STALE), REPLY_SHAPES[version]
    found = seen(count_reply(shape, buf, 1, 1 + end, most))
    at = 1 + shape.start_bytes
    if at <= 1 + end and not (shape.compact and buf[9]):
        for topic in topics_of(found):
            after, *counted = summed(shape, topic, buf, at, 1 + end, most)
            assert (found == [(topic, *counted)]) == (after >= 0)
    return found


def topics_of(found: list[tuple] | None) -> set[bytes]:
    """Return the topics that were found, and others."""
    return {b"orders", b"t", b"orders..........", *[each[0] for each in found or ()]}


def summed(shape: TopicShape, topic: bytes, *place: object) -> tuple[int, ...]:
    """Return what `sum_topic` returns of these topics."""
    buf, at, end, most = place
    return topic_runs.sum_topic(
        buf,
        at,
        end,
        topic,
        most,
        shape.by_id,
        shape.fixed_bytes,
        shape.has_aborted,
        shape.replica_bytes,
        shape.compact,
    )


def read_request(version: int, body: bytes) -> list[tuple] | None:
    """Return what is counted byte by byte; None if the body cannot be read."""
    walker = ProduceTopics(version)
    try:
        for place in range(len(body)):
            walker.feed(bytearray(body), place, place + 1)
    except WireError:
        return None
    return seen(walker.per_topic) if walker.done else None


def read_reply(version: int, frame: bytes) -> list[tuple] | None:
    """Return what is counted byte by byte; None if the reply cannot be read."""
    reader = FetchTopics(version)
    for place in range(len(frame)):
        reader.feed(bytearray(frame), place, place + 1)
    return seen(reader.per_topic) if reader.done else None


def has_text(version: int, found: list[tuple]) -> bool:
    """Return whether all names are text: that is not looked at in one go."""
    try:
        return version >= 13 or all(name.decode() is not None for name, *_ in found)
    except UnicodeDecodeError:
        return False


def framed(version: int, body: bytes) -> bytes:
    payload = INT32.pack(7) + (b"\x00" if version >= 12 else b"") + body
    return INT32.pack(len(payload)) + payload


def reply_of(version: int, topics: list[tuple[bytes, list[bytes | None]]]) -> bytes:
    """Return a reply frame without tags and aborted transactions."""
    compact = version >= 12
    counted = encode_compact_count if compact else encode_count
    body = INT32.pack(0) + (INT16.pack(0) + INT32.pack(9) if version >= 7 else b"")
    body += counted(len(topics))
    for name, fields in topics:
        spelt = encode_compact(name) if compact else encode_string(name)
        body += (named(version, name) if version >= 13 else spelt) + counted(len(fields))
        for index, field in enumerate(fields):
            body += INT32.pack(index) + INT16.pack(0) + INT64.pack(9) * (3 if version >= 5 else 2)
            body += counted(0) + (INT32.pack(-1) if version >= 11 else b"")
            if compact:
                body += b"\x00" if field is None else encode_compact(field)
                body += b"\x00"
            else:
                body += INT32.pack(-1) if field is None else INT32.pack(len(field)) + field
        body += b"\x00" if compact else b""
    return framed(version, body + (b"\x00" if compact else b""))


def expected(version: int, topics: list[tuple[bytes, list[bytes]]]) -> list[tuple]:
    counts = {
        FIELDS[0]: (2, 8),
        FIELDS[1]: (1, 2),
        FIELDS[2]: (1, 40),
        FIELDS[3]: (1, 1),
        b"": (0, 0),
    }
    return [
        (
            named(version, name),
            len(fields),
            sum(map(len, fields)),
            sum(counts[field][0] for field in fields),
            sum(counts[field][1] for field in fields),
        )
        for name, fields in topics
    ]


TOPICS = st.lists(
    st.tuples(
        st.sampled_from([b"orders", b"t", b"n" * 130]),
        st.lists(st.sampled_from([*FIELDS, b""]), min_size=1, max_size=5),
    ),
    min_size=1,
    max_size=4,
)


@for_each(REQUESTS, examples=10)
def test_ordinary_requests_are_counted_in_one_go(version, data):
    """But not if they end earlier, or have more parts than may be visited."""
    topics = data.draw(TOPICS)
    asked = [(named(version, name), list(enumerate(fields))) for name, fields in topics]
    body = body_of(version, asked)
    assert request_counts(version, body, len(body)) == expected(version, topics)
    for end in data.draw(st.sets(st.integers(20, len(body) - 1), max_size=20)):
        assert request_counts(version, body, end) is None
    parts = sum(1 + len(fields) for _, fields in topics)
    assert request_counts(version, body, len(body), parts) is not None
    assert request_counts(version, body, len(body), parts - 1) is None


@for_each(REPLIES, examples=10)
def test_ordinary_replies_are_counted_in_one_go(version, data):
    """But not if they end before their last topic, or have more parts than may be visited."""
    topics = data.draw(TOPICS)
    frame = reply_of(version, topics)
    assert reply_counts(version, frame, len(frame)) == expected(version, topics)
    for end in data.draw(st.sets(st.integers(8, len(frame) - 3), max_size=20)):
        assert reply_counts(version, frame, end) is None
    parts = sum(1 + len(fields) for _, fields in topics)
    assert reply_counts(version, frame, len(frame), parts) is not None
    assert reply_counts(version, frame, len(frame), parts - 1) is None


@for_each(REQUESTS, examples=15)
def test_any_request_is_counted_as_byte_by_byte_or_not_at_all(version, data):
    """Any message, with a byte overwritten."""
    shape = codec.request_shape(api_of(ApiKey.PRODUCE, version))
    body = bytearray(codec.encode(data.draw(messages_of(shape))))
    (_, after_acks) = read_acks(body, 0, len(body), version)
    if data.draw(st.booleans()) and after_acks + 4 < len(body):
        place = data.draw(st.integers(after_acks + 4, len(body) - 1))
        body[place] = data.draw(st.integers(0, 255))
    found = request_counts(version, bytes(body), len(body))
    if found is not None:
        one_by_one = read_request(version, bytes(body))
        assert one_by_one == (found if has_text(version, found) else None)


@for_each(REPLIES, examples=15)
def test_any_reply_is_counted_as_byte_by_byte_or_not_at_all(version, data):
    """Any message, with a byte overwritten; a null field of records has no bytes."""
    shape = codec.response_shape(api_of(ApiKey.FETCH, version))
    frame = bytearray(framed(version, codec.encode(data.draw(messages_of(shape)))))
    if data.draw(st.booleans()):
        frame[data.draw(st.integers(8, len(frame) - 1))] = data.draw(st.integers(0, 255))
    found = reply_counts(version, bytes(frame), len(frame))
    if found is not None:
        one_by_one = read_reply(version, bytes(frame))
        assert one_by_one == (found if has_text(version, found) else None)
    null = reply_of(version, [(b"orders", [None, FIELDS[1]])])
    assert reply_counts(version, null, len(null))[0][1:] == (2, len(FIELDS[1]), 1, 2)


@pytest.mark.parametrize("version", [11, 12])
def test_a_reply_without_topics_counts_nothing(version):
    """As the first of a session that has nothing new."""
    frame = reply_of(version, [])
    assert reply_counts(version, frame, len(frame)) == []
    assert reply_counts(version, frame[:-2], len(frame) - 2) is None
