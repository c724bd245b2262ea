"""A Produce request in any chunks gives acks, timeout, topics and partitions, and no byte of a record."""

import tracemalloc
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, messages_of, survives
from wire import codec
from wire.apis import ApiKey
from wire.errors import WireError
from wire.primitives import INT32, encode_compact, encode_compact_count, encode_string
from wire.produce import ProduceWalker, read_acks

VERSIONS = range(3, 14)


def walked(version: int, body: bytes, cuts=()) -> ProduceWalker:
    """Return a walker that was fed the body cut at these places."""
    walker = ProduceWalker(version)
    places = sorted({0, len(body), *cuts})
    for start, end in pairwise(places):
        buf = bytearray(b"\x00" + body[start:end] + b"\x07stale")
        walker.feed(buf, 1, 1 + end - start)
    return walker


def skeleton(version: int, message) -> list:
    """Return what the walker should report of a decoded request."""
    return [
        (
            (topic.topic_id.bytes if topic.topic_id else bytes(16))
            if version >= 13
            else topic.name,
            [partition.index for partition in topic.partition_data],
        )
        for topic in message.topic_data
    ]


@for_each(VERSIONS, examples=30)
def test_any_chunking_gives_the_same(version, data):
    """The walker reports, with any chunks, what the codec reads."""
    shape = codec.request_shape(api_of(ApiKey.PRODUCE, version))
    message = data.draw(messages_of(shape))
    body = codec.encode(message)
    cuts = data.draw(st.sets(st.integers(0, len(body)), max_size=12))
    for walker in (walked(version, body), walked(version, body, cuts)):
        assert walker.done
        assert walker.acks == message.acks
        assert timedelta(milliseconds=walker.timeout_ms) == message.timeout
        assert walker.topics == skeleton(version, message)


@for_each(VERSIONS, examples=30)
def test_damage_is_a_wire_error(version, data):
    """A walker of overwritten bytes reads or refuses, the same in one chunk and byte by byte."""
    shape = codec.request_shape(api_of(ApiKey.PRODUCE, version))
    body = bytearray(codec.encode(data.draw(messages_of(shape))))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    whole = survives(walked, version, bytes(body))
    assert survives(walked, version, bytes(body), range(len(body))) == whole


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_before_transactions_begin_with_acks(version):
    """v0 to v2 begin with acks; the rest is as in v3."""
    body = (
        b"\xff\xff" + INT32.pack(30000) + INT32.pack(1) + encode_string(b"orders")
        + INT32.pack(2) + INT32.pack(0) + INT32.pack(3) + b"rec" + INT32.pack(5) + INT32.pack(-1)
    )  # fmt: skip
    for cuts in ((), range(len(body))):
        walker = walked(version, body, cuts)
        assert (walker.acks, walker.timeout_ms, walker.done) == (-1, 30000, True)
        assert walker.topics == [("orders", [0, 5])]
    assert read_acks(body, 0, len(body), version) == (-1, 2)


def flexible(*topics: bytes, tags: bytes = b"\x00") -> bytes:
    head = b"\x00" + b"\x00\x01" + INT32.pack(100) + encode_compact_count(len(topics))
    return head + b"".join(topics) + tags


def topic(name: bytes, *partitions: bytes, tags: bytes = b"\x00") -> bytes:
    return (
        encode_compact(name) + encode_compact_count(len(partitions)) + b"".join(partitions) + tags
    )


def partition(index: int, records: bytes, tags: bytes = b"\x00") -> bytes:
    return INT32.pack(index) + encode_compact(records) + tags


def test_unknown_tags_are_stepped_over():
    """Tagged fields of every level are skipped, large ones across many chunks."""
    tags = b"\x02\x05\x01x\x07\xe8\x07" + b"t" * 1000
    body = flexible(topic(b"a", partition(3, b"r" * 500, tags), tags=tags), tags=tags)
    for cuts in ((), range(0, len(body), 7), range(len(body))):
        walker = walked(9, body, cuts)
        assert walker.done
        assert walker.topics == [("a", [3])]


@pytest.mark.parametrize("tags", [b"\x80\x00", b"\x81\x00\xe7\x24\x83\x00new"])
def test_tags_may_be_spelt_in_more_bytes_than_they_need(tags):
    """The count, the tag and its size may each be cut between two bytes."""
    body = flexible(topic(b"a", partition(3, b"r", tags), tags=tags), tags=tags)
    for cuts in ((), range(len(body))):
        walker = walked(9, body, cuts)
        assert walker.done
        assert walker.topics == [("a", [3])]


def test_the_walker_keeps_no_record_bytes():
    """The walker holds nothing in the middle of records of any size."""
    body = flexible(topic(b"a", partition(0, b"r" * 10**6)))
    walker = ProduceWalker(9)
    tracemalloc.start()
    try:
        for start in range(0, len(body), 4096):
            walker.feed(body[start : start + 4096], 0, min(4096, len(body) - start))
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert walker.done
    assert held_bytes < 10_000


def test_acks_and_topics_are_known_before_the_records():
    """Acks and timeout are known with the head, and a topic with its name, before any record."""
    body = flexible(topic(b"orders", partition(0, b"r" * 100)))
    walker = ProduceWalker(9)
    walker.feed(body, 0, 8)
    assert (walker.acks, walker.timeout_ms, walker.topics) == (1, 100, [])
    walker.feed(body, 8, 25)
    assert walker.topics == [("orders", [0])]
    assert not walker.done


def test_not_done_before_the_last_byte():
    """A walker is done exactly when it has taken the last byte, also after records of a classic body."""
    classic = (
        b"\xff\xff" + b"\x00\x01" + INT32.pack(1) + INT32.pack(1)
        + encode_string(b"a") + INT32.pack(1) + INT32.pack(0) + INT32.pack(3) + b"rec"
    )  # fmt: skip
    for version, body in ((3, classic), (9, flexible(topic(b"a", partition(0, b"rec"))))):
        walker = ProduceWalker(version)
        for at in range(len(body)):
            assert not walker.done
            walker.feed(body, at, at + 1)
        assert walker.done
        with pytest.raises(WireError):
            walker.feed(b"\x00", 0, 1)


@pytest.mark.parametrize(
    "body",
    [
        flexible(topic(b"a", tags=b"\x41")),
        flexible(topic(b"a", tags=b"\x02\x05\x00\x05\x00")),
        flexible(b"\x00\x01\x00"),
        flexible(topic(b"\xff")),
        b"\x00\x00\x01" + INT32.pack(100) + b"\x00",
        b"\x00\x00\x01" + INT32.pack(100) + b"\xff\xff\xff\xff\x0f",
        b"\x81\x80\x02",
    ],
    ids=["65 tags", "a tag twice", "null name", "not UTF-8", "null topics", "bomb", "long id"],
)
def test_a_body_that_kafka_would_not_send_is_refused(body):
    """The walker refuses it in one chunk and byte by byte."""
    for cuts in ((), range(len(body))):
        with pytest.raises(WireError):
            walked(9, body, cuts)


@for_each(VERSIONS)
def test_acks_are_read_when_they_are_there(version):
    """The acks are found after the transactional id, once they are there and not before."""
    for txn in (None, b"", b"t" * 200):
        compact = version >= 9
        head = encode_compact(txn) if compact else encode_string(txn)
        body = b"xx" + head + b"\xff\xff" + INT32.pack(100)
        at = 2 + len(head) + 2
        assert read_acks(body, 2, len(body), version) == (-1, at)
        assert all(read_acks(body, 2, cut, version) is None for cut in range(2, at))
