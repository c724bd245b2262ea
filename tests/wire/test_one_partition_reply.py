"""Produce responses of one topic and one partition are recognised, and no other is taken for one."""

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
from wire.one_partition_reply import OnePartitionReply

MOVED = ErrorCode.not_leader_or_follower


def matches(version: int, body: bytes, tags: bytes = b"\x00") -> bool:
    """Return the result for a whole response frame with this body, between other bytes."""
    frame = framed(body, tags)
    buf = bytearray(b"xx" + frame + b"\x02stale")
    return OnePartitionReply(version).matches(buf, 2, 2 + len(frame))


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
    """Header tags, more topics or partitions, none of them, tags of a partition, an error message."""
    assert not matches(version, codec.encode(produced(module)), tags=b"\x01\x05\x00")
    assert not matches(version, codec.encode(produced(module, topics=2)))
    assert not matches(version, codec.encode(produced(module, topics=0)))
    assert not matches(version, codec.encode(produced(module, partitions=2)))
    assert not matches(version, codec.encode(produced(module, partitions=0)))
    assert not matches(version, codec.encode(produced(module, error=MOVED)))  # CurrentLeader
    topic = produced(module).responses[0]
    told = replace(topic.partition_responses[0], error_message="no")
    topic = replace(topic, partition_responses=(told,))
    assert not matches(version, codec.encode(replace(produced(module), responses=(topic,))))


def test_names_are_recognised_while_their_length_takes_one_byte():
    """Names from none to 126 characters; a longer one is left to the walk."""
    topic = produced(produce12).responses[0]
    for size in range(140):
        message = produce12.ProduceResponse(responses=(replace(topic, name="n" * size),))
        assert matches(12, codec.encode(message)) == (size < 127)


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
@given(at=st.integers(0, 70), byte=st.integers(0, 255))
def test_the_walk_agrees_with_each_match(module, version, at, byte):
    """It finds the body well-formed and without an address, with any byte changed."""
    body = bytearray(codec.encode(produced(module)))
    body[at % len(body)] = byte
    if matches(version, bytes(body)):
        assert names_no_broker(version, bytes(body))


@for_each(VERSIONS)
def test_a_shorter_frame_does_not_match(module, version):
    """No byte before the frame or after its stop counts, and none is asked for beyond the buffer."""
    frame = framed(codec.encode(produced(module)))
    buf = bytearray(frame)
    shape = OnePartitionReply(version)
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
