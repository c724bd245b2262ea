"""The topics and partitions of whole Produce bodies, and the error reply that repeats them."""

from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, messages_of, survives
from tests.support.messages.waiting import body_of
from wire import codec, produce_partitions, produce_runs
from wire.apis import ApiKey
from wire.errors import BudgetError, ErrorCode, WireError
from wire.primitives import ELEMENT_BUDGET, INT32, encode_compact_count, encode_count
from wire.produce import ProduceWalker, read_acks
from wire.request_names import read_names
from wire.topic_refs import TopicRef

VERSIONS = range(3, 14)
RECORDS = st.none() | st.binary(max_size=20) | st.integers(120, 300).map(bytes)


def buried(body: bytes) -> tuple[bytearray, int, int]:
    """Place a body as in the shared buffer, with other bytes before it and old bytes after it."""
    return bytearray(b"\x01\x02\x03" + body + b"\x00\x02\x07" * 30), 3, 3 + len(body)


def after_timeout(buf: bytearray, at: int, stop: int, version: int) -> int:
    read = read_acks(buf, at, stop, version)
    assert read is not None
    return read[1] + 4


def skeleton(version: int, body: bytes):
    """Return the result of `topics` for a body."""
    buf, at, stop = buried(body)
    at = after_timeout(buf, at, stop, version)
    packed = produce_partitions.pack_topics(buf, at, stop, version)[0]
    return produce_partitions.unpack(packed, version)


def walked(version: int, body: bytes) -> ProduceWalker:
    walker = ProduceWalker(version)
    walker.feed(body, 0, len(body))
    return walker


def plain(found):
    return [(name, list(partitions)) for name, partitions in found]


@for_each(VERSIONS, examples=40)
def test_it_agrees_with_the_walker(version, data):
    """Any body that the codec can write, in every version, gives what the walker reports."""
    shape = codec.request_shape(api_of(ApiKey.PRODUCE, version))
    body = codec.encode(data.draw(messages_of(shape)))
    walker = walked(version, body)
    assert walker.done
    assert plain(skeleton(version, body)) == plain(walker.topics)
    buf, at, stop = buried(body)
    at = after_timeout(buf, at, stop, version)
    packed = produce_partitions.pack_topics(buf, at, stop, version)[0]
    assert packed == bytes(walker.packed)
    assert produce_runs.pack_untagged(buf, at, stop, version, len(packed)) in {packed, None}


@for_each(VERSIONS, examples=40)
def test_a_body_without_tags_is_packed_in_one_call(version, data):
    """The result is that of the walk; None if it would be longer than it may be, and for a body that is cut."""
    name = st.binary(min_size=16, max_size=16)
    if version < 13:
        name = st.sampled_from([b"", b"t", b"n" * 127, b"n" * 249])
    records = st.integers(0, 70).map(bytes) | st.integers(120, 300).map(bytes)
    index = st.integers(-(2**31), 2**31 - 1)
    partitions = st.lists(st.tuples(index, records), min_size=1, max_size=140)
    asked = data.draw(st.lists(st.tuples(name, partitions), min_size=1, max_size=3))
    body = body_of(version, asked)
    buf, at, stop = buried(body)
    at = after_timeout(buf, at, stop, version)
    packed = produce_partitions.pack_topics(buf, at, stop, version)[0]
    assert produce_runs.pack_untagged(buf, at, stop, version, len(packed)) == packed
    assert produce_runs.pack_untagged(buf, at, stop, version, len(packed) - 1) is None
    for end in {at, stop - 1, data.draw(st.integers(at, stop - 1))}:
        assert produce_runs.pack_untagged(buf, at, end, version, len(packed)) is None


@for_each(VERSIONS, examples=40)
def test_records_and_tags_of_any_size_are_stepped_over(version, data):
    """Records may be null, empty, or have a size of one or two bytes; unknown tags are skipped."""
    name = st.binary(min_size=16, max_size=16)
    if version < 13:
        name = st.sampled_from([b"t", b"orders", b"n" * 126, b"n" * 127, b"n" * 249])
    partition = st.tuples(st.integers(-(2**31), 2**31 - 1), RECORDS)
    asked = data.draw(st.lists(st.tuples(name, st.lists(partition, max_size=4)), max_size=4))
    tags = data.draw(
        st.sampled_from([b"\x00", b"\x01\x05\x01x", b"\x02\x00\x00\xe7\x24\x81\x01" + bytes(129)])
    )
    body = body_of(version, asked, tags=tags)
    walker = walked(version, body)
    assert walker.done
    assert plain(skeleton(version, body)) == plain(walker.topics)
    assert [list(each) for _, each in skeleton(version, body)] == [
        [index for index, _ in partitions] for _, partitions in asked
    ]


def test_a_name_that_is_no_text_and_a_topic_id_are_packed():
    """The broker refuses such a name, not Sluice; from v13 on a topic is its id of sixteen bytes."""
    assert plain(skeleton(9, body_of(9, [(b"a\xff", [(1, None)])]))) == [("a\ufffd", [1])]

    each = UUID(int=7 << 60)
    body = body_of(13, [(each.bytes, [(1, b"r")])])
    assert plain(skeleton(13, body)) == [(each.bytes, [1])]
    reply = produce_partitions.error_reply(api_of(ApiKey.PRODUCE, 13), skeleton(13, body), 7)
    assert reply[:18] == b"\x02" + each.bytes + b"\x02"


@for_each(VERSIONS, examples=60)
def test_damage_is_a_wire_error(version, data):
    """An overwritten, cut or repeated body is read or refused, and never read beyond the frame."""
    shape = codec.request_shape(api_of(ApiKey.PRODUCE, version))
    body = bytearray(codec.encode(data.draw(messages_of(shape))))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(
            st.sampled_from([0, 1, 2, 127, 128, 255]) | st.integers(0, 255)
        )
    damaged = bytes(body[: data.draw(st.integers(0, len(body)))])
    read = (
        read_acks(damaged, 0, len(damaged), version)
        if survives(read_acks, damaged, 0, len(damaged), version)
        else None
    )
    if read is None or read[1] + 4 > len(damaged):
        return
    buf, at, stop = buried(damaged)
    at += read[1] + 4
    survives(produce_partitions.pack_topics, buf, at, stop, version)
    # Right at the end of the buffer, too.
    survives(produce_partitions.pack_topics, damaged, read[1] + 4, len(damaged), version)


@for_each(VERSIONS)
def test_a_body_cut_anywhere_is_refused(version):
    """Bytes after the frame are never read as a part of it, even if they would complete it."""
    name = bytes(range(16)) if version >= 13 else b"orders"
    body = body_of(version, [(name, [(0, b"r" * 5), (7, None)]), (name, [(3, b"")])])
    head = read_acks(body, 0, len(body), version)
    assert head is not None
    for stop in range(head[1] + 4, len(body)):
        with pytest.raises(WireError):
            produce_partitions.pack_topics(bytearray(body + bytes(9)), head[1] + 4, stop, version)
        with pytest.raises(WireError):
            produce_partitions.pack_topics(body[:stop], head[1] + 4, stop, version)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_an_impossible_count_costs_nothing(version):
    """A huge count is refused before any loop, and so are more elements than the budget."""
    for count in (2**31 - 2, ELEMENT_BUDGET + 1):
        body = encode_compact_count(count) if version >= 9 else encode_count(count)
        padded = body + bytes(12 * ELEMENT_BUDGET)
        with pytest.raises(WireError):
            produce_partitions.pack_topics(padded, 0, len(padded), version)


@pytest.mark.parametrize(
    ("version", "topics", "match"),
    [
        (3, b"\0\0\0\1 \xff\xff \0\0\0\0", "name is null"),
        (9, b"\2 \0 \1\0 \0", "name is null"),
        (3, b"\0\0\0\1 \0\1t \xff\xff\xff\xff", "count -1"),
        (9, b"\2 \2t \0\0 \0", "count -1"),
        (13, b"\2 id-of-16-bytes-- \0\0 \0", "count -1"),
        (3, b"\xff\xff\xff\xff", "count -1"),
        (9, b"\0\0", "count -1"),
        (9, b"\2 \2t \2 \0\0\0\7 \x09 rr\0\0\0", "partition 7 ends 4 bytes beyond"),
        (3, b"\0\0\0\1 \0\1t \0\0\0\1 \0\0\0\7 \0\0\0\5 rr", "partition 7 ends 3 bytes beyond"),
        (3, b"\0\0\0\0 \0", "1 bytes follow"),
        (9, b"\1\0 \0\0", "2 bytes follow"),
    ],
)
def test_a_body_that_kafka_would_not_send_is_refused(version, topics, match):
    """Names and arrays may not be null, and the last field ends where the body does."""
    body = topics.replace(b" ", b"")
    with pytest.raises(WireError, match=match):
        produce_partitions.pack_topics(body + bytes(20), 0, len(body), version)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_every_partition_and_tag_costs_budget(version):
    """What is left is returned; one element more than the budget is refused."""
    name = bytes(range(16)) if version >= 13 else b"orders"
    tags = b"\x01\x05\x01x"
    body = body_of(version, [(name, [(0, b"r"), (1, b"r")])] * 2, tags=tags)
    at, cost = after_timeout(bytearray(body), 0, len(body), version), 6 if version < 9 else 13
    assert produce_partitions.pack_topics(body, at, len(body), version, cost + 1)[1] == 1
    for budget in range(cost):
        with pytest.raises(BudgetError):
            produce_partitions.pack_topics(body, at, len(body), version, budget)


# -- one topic, one partition -------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("length", [1, 40, 126, 127, 249])
def test_one_topic_and_one_partition_are_recognised(version, length):
    """The head ends where the records' size begins; names with a two-byte size need not be recognised."""
    name = bytes(range(16)) if version >= 13 else b"n" * length
    body = body_of(version, [(name, [(5, b"r" * 400)])])
    buf, at, stop = buried(body)
    end = produce_runs.single_partition_head_end(
        buf, after_timeout(buf, at, stop, version), stop, version
    )
    if 9 <= version < 13 and length >= 127:
        assert end == 0
        return
    assert buf[end - 4 : end] == INT32.pack(5)
    assert body.index(b"r" * 400) == end - 3 + (2 if version >= 9 else 4)


@for_each(VERSIONS, examples=60)
def test_a_recognised_head_has_one_topic_and_one_partition(version, data):
    """When the head of a valid body is recognised, a walker finds exactly that topic and partition."""
    if data.draw(st.booleans()):
        shape = codec.request_shape(api_of(ApiKey.PRODUCE, version))
        body = codec.encode(data.draw(messages_of(shape)))
    else:
        name = (
            st.binary(min_size=16, max_size=16)
            if version >= 13
            else st.sampled_from([b"", b"\x02", b"tt"])
        )
        partitions = st.lists(st.tuples(st.sampled_from([0, 2, 1 << 24]), RECORDS), max_size=2)
        body = body_of(version, data.draw(st.lists(st.tuples(name, partitions), max_size=2)))
    buf, at, stop = buried(body)
    at = after_timeout(buf, at, stop, version)
    end = produce_runs.single_partition_head_end(buf, at, stop, version)
    walker = walked(version, body)
    if end:
        assert end < stop
        assert [len(partitions) for _, partitions in walker.topics] == [1]
        assert walker.topics[0][1] == [INT32.unpack_from(buf, end - 4)[0]]


@for_each(VERSIONS, examples=100, of=st.binary(max_size=60))
def test_a_head_of_any_bytes_lies_inside_its_frame(version, body):
    """Any bytes raise no error and give no offset after the frame."""
    buf, at, stop = buried(body)
    end = produce_runs.single_partition_head_end(buf, at, stop, version)
    assert end == 0 or at < end < stop
    alone = bytearray(body)
    found = produce_runs.single_partition_head_end(alone, 0, len(alone), version)
    assert found == max(end - at, 0)


# -- the reply ----------------------------------------------------------------------------------


@for_each(VERSIONS, examples=30)
def test_the_reply_gives_every_partition_the_code(version, data):
    """The codec reads Kafka's error reply: no offset, no time, no failed records, no throttle."""
    name = (
        st.uuids(version=4).map(lambda each: each.bytes)
        if version >= 13
        else st.text("aü-", max_size=200)
    )
    partitions = st.lists(st.integers(0, 2**31 - 1), max_size=200)
    asked = data.draw(st.lists(st.tuples(name, partitions), max_size=3))
    api = api_of(ApiKey.PRODUCE, version)
    body = produce_partitions.error_reply(api, asked, ErrorCode.REQUEST_TIMED_OUT)
    said = codec.decode_response(api, body)
    assert codec.encode(said) == body
    assert said.throttle_time == timedelta(0)
    seen = [
        (
            topic.topic_id.bytes if version >= 13 else topic.name,
            [p.index for p in topic.partition_responses],
        )
        for topic in said.responses
    ]
    assert seen == asked
    for topic in said.responses:
        for partition in topic.partition_responses:
            assert partition.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert partition.base_offset == -1
            assert getattr(partition, "log_append_time", None) is None
            assert getattr(partition, "log_start_offset", -1) == -1
            assert getattr(partition, "record_errors", ()) == ()
            assert getattr(partition, "error_message", None) is None


VERSIONS = range(3, 14)


@for_each(VERSIONS, examples=60)
def test_topics_that_were_read_for_a_policy_are_packed_the_same(version, data):
    """Any body that the codec can write, with a byte changed or not: what both readers take, they pack alike."""
    api = api_of(ApiKey.PRODUCE, version)
    body = bytearray(codec.encode(data.draw(messages_of(codec.request_shape(api)))))
    changed = data.draw(st.booleans())
    if changed:
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    buf, stop = body + b"\x00\x02\x07" * 30, len(body)
    try:
        packed = produce_partitions.pack_refs(read_names(api, buf, 0, stop, {}).topics)
    except WireError:
        walker = ProduceWalker(version)
        if not changed:
            walker.feed(body, 0, stop)
        assert changed or not walker.topics or not all(each for _, each in walker.topics)
        return
    read = read_acks(buf, 0, stop, version)
    try:
        assert read is not None or changed
        if read is not None:
            found = produce_partitions.pack_topics(buf, read[1] + 4, stop, version)
            assert found[0] == packed
    except WireError:  # it refuses more: bytes that follow the last field
        assert changed


@pytest.mark.parametrize("refs", [[], [TopicRef(None, None, (1,))], [TopicRef("t", None, ())]])
def test_what_may_be_malformed_is_not_packed(refs):
    """The broker judges a request without topics, names or partitions."""
    with pytest.raises(WireError, match=r"name is null|has no"):
        produce_partitions.pack_refs(refs)
