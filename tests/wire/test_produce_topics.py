"""The walker of a Produce body's topics: their partitions, bytes and records."""

from itertools import pairwise

import pytest
from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, messages_of, survives
from tests.support.messages.record_batches import batch
from wire import codec
from wire.apis import ApiKey
from wire.errors import WireError
from wire.primitives import INT32, encode_compact, encode_compact_count, encode_string
from wire.produce import ProduceWalker
from wire.produce_topics import ProduceTopics

VERSIONS = range(3, 14)


def walked(walker, body: bytes, cuts=()):
    """Return the walker, fed the body cut at these places."""
    for start, end in pairwise(sorted({0, len(body), *cuts})):
        walker.feed(bytearray(b"\x00" + body[start:end] + b"\x07stale"), 1, 1 + end - start)
    return walker


def uses(walker: ProduceTopics) -> list[tuple]:
    return [
        (
            use.topic if walker.shape.by_id else use.topic.decode(),
            use.partitions,
            use.size_bytes,
            use.batches,
            use.records,
        )
        for use in walker.per_topic
    ]


@for_each(VERSIONS, examples=15)
def test_it_agrees_with_the_plain_walker_and_the_codec(version, data):
    """Any chunks give the same topics, acks and end as the plain walker, and the partitions and bytes of the codec."""
    message = data.draw(messages_of(codec.request_shape(api_of(ApiKey.PRODUCE, version))))
    body = codec.encode(message)
    cuts = data.draw(st.sets(st.integers(0, len(body)), max_size=12))
    plain = walked(ProduceWalker(version), body)

    walker = walked(ProduceTopics(version), body, cuts)

    assert (walker.acks, walker.timeout_ms, walker.topics) == (
        plain.acks,
        plain.timeout_ms,
        plain.topics,
    )
    assert walker.done
    assert [use[:3] for use in uses(walker)] == [
        (
            name,
            len(topic.partition_data),
            sum(len(partition.records or b"") for partition in topic.partition_data),
        )
        for (name, _), topic in zip(plain.topics, message.topic_data, strict=True)
    ]


@for_each(VERSIONS, examples=15)
def test_damage_is_a_wire_error_or_ignored(version, data):
    """In overwritten bytes, strict refuses what the plain walker refuses, and lenient never raises."""
    shape = codec.request_shape(api_of(ApiKey.PRODUCE, version))
    body = bytearray(codec.encode(data.draw(messages_of(shape))))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))

    plain = survives(lambda: walked(ProduceWalker(version), bytes(body)))
    strict = survives(lambda: walked(ProduceTopics(version), bytes(body)))
    lenient = walked(ProduceTopics(version, lenient=True), bytes(body), range(len(body)))

    assert strict == plain
    assert lenient.broken == (not plain)


def classic(*topics: tuple[bytes, list[bytes]]) -> bytes:
    """Return a Produce v3 body."""
    body = b"\xff\xff\xff\xff" + INT32.pack(30_000) + INT32.pack(len(topics))
    for name, fields in topics:
        body += encode_string(name) + INT32.pack(len(fields))
        for index, field in enumerate(fields):
            body += INT32.pack(index) + INT32.pack(len(field)) + field
    return body


@pytest.mark.parametrize("step", [1, 7, 64, 1000, 10**6])
def test_records_are_counted_by_topic(step):
    """Real batches of several partitions and topics are counted, in chunks of any size."""
    body = classic(
        (b"orders", [batch(3), batch(5)]), (b"empty", [b""]), (b"paid", [batch(2) + batch(1)])
    )

    walker = walked(ProduceTopics(3), body, range(0, len(body), step))

    assert uses(walker) == [
        ("orders", 2, len(batch(3)) + len(batch(5)), 2, 8),
        ("empty", 1, 0, 0, 0),
        ("paid", 1, len(batch(2)) + len(batch(1)), 2, 3),
    ]


def test_compact_fields_and_tags_are_stepped_over():
    """A v9 tagged field of any length is not counted as a record."""
    tags = b"\x01\x05\xe8\x07" + b"t" * 1000
    body = (
        b"\x00\x00\x01" + INT32.pack(100) + encode_compact_count(1) + encode_compact(b"a")
        + encode_compact_count(1) + INT32.pack(3) + encode_compact(batch(4)) + tags + tags + tags
    )  # fmt: skip

    for step in (1, 50, 10**6):
        walker = walked(ProduceTopics(9), body, range(0, len(body), step))
        assert walker.done
        assert uses(walker) == [("a", 1, len(batch(4)), 1, 4)]


def test_nothing_is_read_after_damage():
    """After damage the walker says it is done and reads nothing more."""
    walker = ProduceTopics(3, lenient=True)
    body = classic((b"\xff\xff", [batch(1)]))

    walked(walker, body)
    walked(walker, body)

    assert walker.broken
    assert walker.done
    with pytest.raises(WireError):
        walked(ProduceTopics(3), body)
