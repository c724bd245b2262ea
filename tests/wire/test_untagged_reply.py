"""Produce responses without tagged fields are recognised, and no other is taken for one."""

from dataclasses import replace
from struct import error

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.produce.v12 import response as produce12

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.produce_replies import VERSIONS, framed, produced
from wire import codec, one_partition_reads
from wire.addresses import rewriter
from wire.apis import ApiKey
from wire.one_partition_reads import TAIL_BYTES
from wire.untagged_reply import UntaggedReply

MOVED = ErrorCode.not_leader_or_follower


def matches(version: int, body: bytes, tags: bytes = b"\x00") -> bool:
    """Return the result for a whole response frame with this body, between other bytes."""
    frame = framed(body, tags)
    buf = bytearray(b"xx" + frame + b"\x02stale")
    return UntaggedReply(version).matches(buf, 2, 2 + len(frame))


def names_no_broker(version: int, body: bytes) -> bool:
    """Return whether the walk of the body finds it well-formed and without an address; raises WireError."""

    def never(*_):
        raise AssertionError("an address")

    rewrite = rewriter(api_of(ApiKey.PRODUCE, version))
    return rewrite(bytearray(body), 0, len(body), never) is None


@for_each(VERSIONS)
def test_a_plain_reply_is_recognised(module, version):
    """One topic, one partition, no tags, with or without an error code."""
    usual = codec.encode(produced(module))
    assert matches(version, usual)
    failed = replace(produced(module).responses[0].partition_responses[0], error_code=MOVED)
    topic = replace(produced(module).responses[0], partition_responses=(failed,))
    assert matches(version, codec.encode(replace(produced(module), responses=(topic,))))


@for_each(VERSIONS)
def test_any_other_reply_is_left_to_the_walk(module, version):
    """Header tags, no topics or partitions, tags or an error message of any partition."""
    assert not matches(version, codec.encode(produced(module)), tags=b"\x01\x05\x00")
    assert not matches(version, codec.encode(produced(module, topics=0)))
    assert not matches(version, codec.encode(produced(module, partitions=0)))
    assert not matches(version, codec.encode(produced(module, error=MOVED)))  # CurrentLeader
    for place in range(3):
        plain = produced(module, topics=2, partitions=3)
        topic = plain.responses[1]
        parts = list(topic.partition_responses)
        parts[place] = replace(parts[place], error_message="no")
        topic = replace(topic, partition_responses=tuple(parts))
        told = replace(plain, responses=(plain.responses[0], topic))
        assert not matches(version, codec.encode(told))


@for_each(VERSIONS)
def test_any_number_of_topics_and_partitions_is_recognised(module, version):
    """One, some, and more than a length of one byte holds."""
    for topics, partitions in ((1, 2), (2, 1), (3, 5), (1, 126), (1, 127), (1, 300), (130, 1)):
        frame = codec.encode(produced(module, topics=topics, partitions=partitions))
        assert matches(version, frame)


def test_names_of_any_length_are_recognised():
    """From none to the longest that Kafka allows, of one topic and of two."""
    topic = produced(produce12).responses[0]
    for size in (*range(140), 249):
        named = replace(topic, name="n" * size)
        for topics in ((named,), (named, topic)):
            assert matches(12, codec.encode(produce12.ProduceResponse(responses=topics)))


@for_each(VERSIONS)
def test_a_reply_with_an_address_never_matches(module, version):
    """With any sizes of names, endpoints and lists."""
    node = module.NodeEndpoint(node_id=1, host="k", port=9092, rack=None)
    for topics, partitions in ((1, 0), (1, 1), (0, 0)):
        plain = produced(module, topics=topics, partitions=partitions)
        for size in range(1, 160):
            naming = {"name": "n" * size} if module is produce12 else {}
            responses = tuple(replace(topic, **naming) for topic in plain.responses)
            nodes = (replace(node, host="k" * (size % 40 + 1)),)
            message = replace(plain, responses=responses, node_endpoints=nodes)
            assert not matches(version, codec.encode(message))


@pytest.mark.parametrize(("module", "version"), VERSIONS)
@given(st.integers(0, 300), st.integers(0, 255), st.integers(1, 3), st.integers(1, 3))
def test_the_walk_agrees_with_each_match(module, version, at, byte, topics, partitions):
    """It finds the body well-formed and without an address, with any byte changed."""
    body = bytearray(codec.encode(produced(module, topics=topics, partitions=partitions)))
    body[at % len(body)] = byte
    if matches(version, bytes(body)):
        assert names_no_broker(version, bytes(body))


@for_each(VERSIONS)
def test_a_shorter_frame_does_not_match(module, version):
    """No byte before the frame or after its stop counts, and none is asked for beyond the buffer."""
    for topics, partitions in ((1, 1), (2, 3)):
        frame = framed(codec.encode(produced(module, topics=topics, partitions=partitions)))
        buf = bytearray(frame)
        shape = UntaggedReply(version)
        assert shape.matches(buf, 0, len(frame))
        for size in range(len(frame)):
            assert not shape.matches(buf, 0, size)
            assert not shape.matches(buf, len(frame) - size, len(frame))


BYTE = st.integers(0, 255)


@given(BYTE, BYTE, BYTE, st.binary(max_size=9), st.binary(max_size=9))
def test_a_head_is_two_bytes_as_one_integer_and_one(tags, count, after, before, rest):
    """Unsigned, big-endian."""
    buf = bytearray(before + bytes((tags, count, after)) + rest)

    assert tuple(one_partition_reads.head_at(buf, len(before))) == (256 * tags + count, after)


@given(BYTE, st.binary(min_size=4, max_size=4), BYTE, st.binary(max_size=9))
def test_a_tail_is_three_integers_of_its_forty_bytes(count, ends, tags, before):
    """The fields between them, of 30 and of 4 bytes, do not count."""
    buf = bytearray(before + bytes([count]) + b"?" * 30 + ends + b"?" * 4 + bytes([tags]))

    assert TAIL_BYTES == 40
    found = one_partition_reads.tail_at(buf, len(buf) - TAIL_BYTES)
    assert tuple(found) == (count, int.from_bytes(ends, "big"), tags)


def test_a_buffer_that_ends_before_is_an_error():
    """No byte after its end is read."""
    for read, size in ((one_partition_reads.head_at, 3), (one_partition_reads.tail_at, TAIL_BYTES)):
        read(bytearray(size), 0)
        with pytest.raises(error):
            read(bytearray(size), 1)
