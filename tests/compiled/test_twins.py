"""The C functions of the type files return what the functions of their modules return."""

from struct import error, pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.session import frame_heads, paths
from proxy.shell import loop_limits, masks
from tests.support.messages.waiting import body_of
from wire import one_partition_reads, produce_runs, topic_runs
from wire.produce import read_acks
from wire.varint import encode_uvarint

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)


@given(data=st.data(), head=st.tuples(INT32, INT32, INT32))
def test_heads_are_read_alike(twins, data, head):
    """The integers of a head, wherever the frame begins; an error where fewer bytes are left."""
    before, after = data.draw(st.binary(max_size=9)), data.draw(st.binary(max_size=9))
    buf = bytearray(before + pack(">iii", *head) + after)
    for pos in range(len(buf) + 2):
        for name in ("request_at", "reply_at"):
            try:
                expected = getattr(frame_heads, name)(buf, pos)
            except error:
                with pytest.raises(IndexError):
                    getattr(twins, name)(buf, pos)
            else:
                assert getattr(twins, name)(buf, pos) == expected


@given(st.binary(max_size=40), st.binary(max_size=5), st.integers(0, 45))
def test_prefixes_are_compared_alike(twins, data, prefix, pos):
    """Anywhere in the buffer, and beyond its end."""
    for wanted in (prefix, data[pos : pos + 5]):
        expected = frame_heads.has_prefix(bytearray(data), wanted, pos)
        assert twins.has_prefix(bytearray(data), wanted, pos) == expected


@given(st.binary(max_size=40), st.integers(-3, 45), st.integers(-3, 45))
def test_bytes_are_copied_alike(twins, data, start, stop):
    """Any part of the buffer; what is not inside it is an error."""
    buf = bytearray(data)
    try:
        expected = frame_heads.copy(buf, start, stop)
    except IndexError:
        with pytest.raises(IndexError):
            twins.copy(buf, start, stop)
    else:
        copied = twins.copy(buf, start, stop)
        assert copied == expected == data[start:stop]
        assert type(copied) is type(expected) is bytearray  # a packed produce is bytes


@given(st.binary(max_size=90))
def test_the_bytes_of_a_reply_are_read_alike(twins, data):
    """The head and the tail of a reply of one partition, at any place; an error where fewer bytes are left."""
    buf = bytearray(data)
    assert twins.TAIL_BYTES == one_partition_reads.TAIL_BYTES
    for pos in range(len(buf) + 2):
        for name in ("head_at", "tail_at"):
            try:
                expected = getattr(one_partition_reads, name)(buf, pos)
            except error:
                with pytest.raises(IndexError):
                    getattr(twins, name)(buf, pos)
            else:
                assert getattr(twins, name)(buf, pos) == expected


SIZES = st.lists(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0x81, 0xFF]), max_size=9).map(bytes)


@given(SIZES)
def test_sizes_are_read_alike(twins, data):
    """Of two or four bytes, and compact, wherever they are cut off; and so are pieces of a buffer."""
    buf = bytearray(data)
    for end in range(len(buf) + 1):
        for pos in range(end + 2):
            for width in (0, 2, 4):
                expected = topic_runs.size_at(buf, pos, end, width)
                assert twins.size_at(buf, pos, end, width) == expected
        for pos in range(end + 1):
            assert twins.piece(buf, pos, end) == produce_runs.piece(buf, pos, end)


@given(st.binary(max_size=30), st.data())
def test_topics_are_recognised_alike(twins, data, draws):
    """Wherever the read ends."""
    buf = bytearray(data)
    end = draws.draw(st.integers(0, len(buf)))
    pos = draws.draw(st.integers(0, end))
    for topic in (draws.draw(st.binary(max_size=4)), data[pos : pos + 3]):
        assert twins.holds(buf, pos, end, topic) == topic_runs.holds(buf, pos, end, topic)


BATCHES = st.lists(
    st.builds(
        lambda size, magic, records, more: (
            pack(">qiibiq", 7, size, 0, magic, 0, 0) + bytes(28) + pack(">i", records) + bytes(more)
        ),
        st.sampled_from([49, 52, 0, -1, 1 << 30, 0x7FFF_FFFF]),
        st.sampled_from([2, 2, 2, 0, 1, 3, -1]),
        st.sampled_from([1, 5, 0, -1, 0x7FFF_FFFF]),
        st.integers(0, 4),
    ),
    max_size=3,
).map(b"".join)
LAYOUTS = st.tuples(
    st.sampled_from([4, 22, 30]), st.booleans(), st.sampled_from([0, 4]), st.booleans()
)


def partitions_of(fields: list[bytes], layout: tuple[int, bool, int, bool]) -> bytearray:
    """Return partitions with these records fields."""
    fixed_bytes, has_aborted, replica_bytes, compact = layout
    buf = bytearray()
    for field in fields:
        buf += bytes(fixed_bytes)
        if has_aborted:
            buf += (b"\x01" if compact else bytes(4)) + bytes(replica_bytes)
        buf += (encode_uvarint(len(field) + 1) if compact else pack(">i", len(field))) + field
        buf += bytes(compact)
    return buf


@given(st.lists(BATCHES, max_size=4), LAYOUTS, st.integers(0, 5), st.data())
def test_partitions_are_summed_up_alike(twins, fields, layout, left, data):
    """Of any layout, with any byte changed, and wherever the read ends."""
    buf = partitions_of(fields, layout)
    if data.draw(st.booleans()) and buf:
        buf[data.draw(st.integers(0, len(buf) - 1))] = data.draw(st.integers(0, 255))
    for end in {*range(max(0, len(buf) - 70), len(buf) + 1), len(buf) // 2}:
        expected = topic_runs.sum_partitions(buf, 0, end, left, *layout)
        assert twins.sum_partitions(buf, 0, end, left, *layout) == expected
        assert twins.batch_at(buf, 0, end) == topic_runs.batch_at(buf, 0, end)


@given(st.lists(BATCHES, max_size=4), LAYOUTS, st.booleans(), st.integers(0, 5), st.data())
def test_one_topic_is_summed_up_alike(twins, fields, layout, by_id, most, data):
    """Of any layout, with a name or an id, with any byte changed, and wherever the read ends."""
    compact = layout[3]
    topic = b"i" * 16 if by_id else b"orders"
    count = encode_uvarint(len(fields) + 1) if compact else pack(">i", len(fields))
    buf = bytearray(b"\x02" if compact else pack(">i", 1))
    buf += b"" if by_id else (b"\x07" if compact else pack(">h", 6))
    buf += topic + count + partitions_of(fields, layout) + bytes(compact)
    if data.draw(st.booleans()):
        buf[data.draw(st.integers(0, len(buf) - 1))] = data.draw(st.integers(0, 255))
    for end in {*range(min(40, len(buf))), *range(max(0, len(buf) - 70), len(buf) + 1)}:
        for wanted in (topic, topic[1:], b"x" * len(topic), b""):
            place = (buf, 0, end, wanted, most, by_id, *layout)
            assert twins.sum_topic(*place) == topic_runs.sum_topic(*place)
            found = topic_runs.find_topic(buf, 0, end, wanted, by_id, compact)
            assert twins.find_topic(buf, 0, end, wanted, by_id, compact) == found


@given(
    st.lists(BATCHES, max_size=3),
    LAYOUTS,
    st.tuples(st.integers(-1, 4), st.sampled_from([0, 0, -1, 5, 70, 1 << 20]), st.integers(0, 80)),
    st.data(),
)
def test_a_topic_that_streams_is_summed_up_alike(twins, fields, layout, state, data):
    """From any place of it, with any byte changed, and wherever the read ends."""
    left, field_bytes, batch_bytes = state
    buf = partitions_of(fields, layout) + b"\0\0"
    if data.draw(st.booleans()):
        buf[data.draw(st.integers(0, len(buf) - 1))] = data.draw(st.integers(0, 255))
    for end in {*range(max(0, len(buf) - 70), len(buf) + 1), len(buf) // 2}:
        for pos in {0, end // 2}:
            place = (buf, pos, end, left, field_bytes, batch_bytes if field_bytes > 0 else 0)
            found = topic_runs.follow_topic(*place, *layout)
            assert twins.follow_topic(*place, *layout) == found
            assert pos <= found[0] <= end


FETCHED = st.lists(
    st.builds(
        lambda aborted, tag, records, more: (
            bytes(30) + encode_uvarint(aborted + 1) + aborted * (bytes(16) + tag) + bytes(4)
            + encode_uvarint(len(records) + 1) + records + more
        ),
        st.integers(0, 3),
        st.sampled_from([b"\0", b"\0", b"\1\5\0"]),
        st.binary(max_size=200),
        st.sampled_from([b"\0", b"\0", b"\0", b"\1\5\0"]),
    ),
    max_size=4,
)  # fmt: skip


def test_fetched_records_of_any_size_are_stepped_over_alike(twins):
    """Sizes of one to four bytes, wherever the read ends: the last byte is that of the topic's tags."""
    sizes = [0, 1, 126, 127, 16_382, 16_383, 2_097_150, 2_097_151]
    parts = [bytes(30) + b"\1" + bytes(4) + encode_uvarint(size + 1) + b"\xff" * size + b"\0"
             for size in sizes]  # fmt: skip
    buf = bytearray(bytes(16) + encode_uvarint(len(parts) + 1) + b"".join(parts) + b"\0")
    for end in (len(buf), len(buf) - 1, len(buf) - 2, 3_000_000, 60_000, 500):
        expected = topic_runs.step_topics(buf, 0, end, 1, 100)
        assert twins.step_topics(buf, 0, end, 1, 100) == expected
        partitions = topic_runs.step_partitions(buf, 17, end, len(parts))
        assert twins.step_partitions(buf, 17, end, len(parts)) == partitions
        assert partitions[1] == (0 if end >= len(buf) - 1 else partitions[1])
    assert expected == (0, 1, 100)


@given(st.lists(FETCHED, max_size=3), st.integers(0, 4), st.sampled_from([2, 5, 500]), st.data())
def test_fetched_topics_are_stepped_over_alike(twins, topics, left, most, data):
    """With any byte changed, and wherever the read ends."""
    buf = bytearray()
    for partitions in topics:
        buf += bytes(16) + encode_uvarint(len(partitions) + 1) + b"".join(partitions) + b"\0"
    if data.draw(st.booleans()) and buf:
        buf[data.draw(st.integers(0, len(buf) - 1))] = data.draw(st.integers(0, 255))
    for end in {*range(max(0, len(buf) - 90), len(buf) + 1), len(buf) // 2}:
        expected = topic_runs.step_topics(buf, 0, end, left, most)
        assert twins.step_topics(buf, 0, end, left, most) == expected
        for pos in (0, min(17, end)):
            assert twins.records_at(buf, pos, end) == topic_runs.records_at(buf, pos, end)
            expected = topic_runs.step_partitions(buf, pos, end, left)
            assert twins.step_partitions(buf, pos, end, left) == expected


PARTITIONS = st.one_of(
    st.binary(max_size=300).map(
        lambda each: b"part" + encode_uvarint(len(each) + 1) + each + b"\0"
    ),
    st.binary(max_size=40).map(lambda each: b"part" + pack(">i", len(each)) + each),
    st.integers(0, 1 << 32).map(lambda size: b"part" + encode_uvarint(size & 0xFFFF_FFFF)),
    st.binary(max_size=5),
)


@given(st.lists(PARTITIONS, max_size=9), st.integers(0, 9), st.booleans())
def test_partitions_are_stepped_over_alike(twins, parts, left, compact):
    """The same offset, the same number left and the same indexes, wherever the read ends."""
    buf = bytearray(b"".join(parts))
    for end in range(len(buf) + 1):
        packed, in_c = bytearray(b"x"), bytearray(b"x")
        expected = produce_runs.take_partitions(buf, 0, end, left, packed, compact)
        assert twins.take_partitions(buf, 0, end, left, in_c, compact) == expected
        assert in_c == packed
        assert expected[0] <= end


def test_many_partitions_are_stepped_over_alike(twins):
    """More than C gathers in one piece, with records of one, two and three bytes of length."""
    parts = [pack(">i", each) + encode_uvarint(size + 1) + bytes(size) + b"\0"
             for each, size in enumerate([0, 1, 126, 127, 16_382, 16_383, 70_000] * 30)]  # fmt: skip
    buf = bytearray(b"".join(parts))
    packed, in_c = bytearray(), bytearray()
    expected = produce_runs.take_partitions(buf, 0, len(buf), 250, packed, compact=True)
    assert twins.take_partitions(buf, 0, len(buf), 250, in_c, True) == expected == (len(buf), 40)
    assert in_c == packed == b"".join(pack(">i", each) for each in range(210))


@given(st.binary(min_size=4, max_size=400), st.integers(0, 0x7FFF_FFFF), st.data())
def test_topics_and_indexes_are_appended_alike(twins, data, partitions, draws):
    """From any place of the buffer; what is not inside it is an error."""
    buf, packed, in_c = bytearray(data), bytearray(b"x"), bytearray(b"x")
    at = draws.draw(st.integers(0, len(buf) - 4))
    length = draws.draw(st.integers(0, len(buf) - at))
    produce_runs.pack_topic(packed, buf, at, length, partitions)
    produce_runs.pack_index(packed, buf, at)
    twins.pack_topic(in_c, buf, at, length, partitions)
    twins.pack_index(in_c, buf, at)
    assert in_c == packed
    for pos in (-1, len(buf) - 3):
        with pytest.raises(IndexError):
            twins.pack_topic(in_c, buf, pos, 4, 1)
        with pytest.raises(IndexError):
            twins.pack_index(in_c, buf, pos)


NAMES = st.sampled_from([b"", b"t", b"n" * 127, b"n" * 250])
ASKED = st.lists(
    st.tuples(NAMES, st.lists(st.tuples(INT32, st.none() | st.binary(max_size=200)), max_size=4)),
    max_size=4,
)


@given(ASKED, st.sampled_from([3, 8, 9, 12, 13]), st.data())
def test_topics_are_packed_alike(twins, asked, version, data):
    """Of any request, with any byte changed, cut anywhere, and with any limit."""
    if version >= 13:
        asked = [(name.ljust(16)[:16], parts) for name, parts in asked]
    tags = data.draw(st.sampled_from([b"\0", b"\x01\x05\x01x"]))
    body = body_of(version, asked, tags=tags)
    (_, after_acks) = read_acks(body, 0, len(body), version)
    at, buf = after_acks + 4, bytearray(body + b"\0\2")
    if data.draw(st.booleans()):
        buf[data.draw(st.integers(0, len(buf) - 1))] = data.draw(st.integers(0, 255))
    limits = {0, 40, 1 << 20}
    for end in {*range(max(0, len(body) - 30), len(body) + 1), len(body) // 2}:
        for limit in limits:
            expected = produce_runs.pack_untagged(buf, at, end, version, limit)
            assert twins.pack_untagged(buf, at, end, version, limit) == expected
            assert expected is None or len(expected) <= limit
        head_end = produce_runs.single_partition_head_end(buf, at, end, version)
        assert twins.single_partition_head_end(buf, at, end, version) == head_end


ANSWERS = st.builds(
    lambda count, odd: (bytes(30) + b"\1\0\0") * count + odd,
    st.integers(1, 200),
    st.sampled_from([b"", b"", b"\1", bytes(30) + b"\1\0\1", bytes(30) + b"\1\2x"]),
)


@given(st.lists(st.tuples(NAMES, ANSWERS), max_size=4), st.booleans(), st.binary(max_size=3))
def test_untagged_topics_are_recognised_alike(twins, topics, by_id, after):
    """The same end, also of what is cut."""
    buf = bytearray(encode_uvarint(len(topics) + 1))
    for name, partitions in topics:
        buf += bytes(16) if by_id else encode_uvarint(len(name) + 1) + name
        buf += encode_uvarint(len(partitions) // 33 + 1) + partitions + b"\0"
    buf += after
    for end in {*range(max(0, len(buf) - 40), len(buf) + 1), *range(min(3, len(buf)))}:
        expected = produce_runs.untagged_topics_end(buf, 0, end, by_id)
        assert twins.untagged_topics_end(buf, 0, end, by_id) == expected
        assert expected <= end


def test_a_place_outside_of_the_buffer_is_an_error(twins):
    """C reads nothing before or after it."""
    buf = bytearray(60)
    for pos, end in ((-1, 60), (61, 61), (0, 61)):
        with pytest.raises(IndexError):
            twins.take_partitions(buf, pos, end, 1, bytearray(), True)
        with pytest.raises(IndexError):
            twins.pack_untagged(buf, pos, end, 9, 100)
        with pytest.raises(IndexError):
            twins.single_partition_head_end(buf, pos, end, 9)
        with pytest.raises(IndexError):
            twins.untagged_topics_end(buf, pos, end, True)


def test_a_head_before_the_buffer_is_an_error(twins):
    """A negative place is not counted from the end, as Python's own function does: no frame begins there."""
    for read in (twins.request_at, twins.reply_at, twins.head_at, twins.tail_at):
        with pytest.raises(IndexError):
            read(bytearray(60), -12)


def test_the_constants_are_the_same(twins):
    """Those of heads, the paths of requests and of replies, and the elements of a Produce."""
    heads = frame_heads
    assert twins.HEADS == (heads.REQUEST_BYTES, heads.REPLY_BYTES, heads.MAX_KEPT_BYTES)
    requests = (paths.PASSES, paths.GATED, paths.ASKED, paths.SHOWN, paths.GENERAL)
    assert twins.REQUEST_PATHS == requests == tuple(range(5))
    assert twins.REPLY_PATHS == (paths.PASSES, paths.IF_UNTAGGED, paths.HEARD) == (0, 1, 2)
    runs = produce_runs
    elements = (runs.HEAD, runs.TOPIC, runs.PARTITION, runs.TAG_COUNT, runs.TAG, runs.END)
    assert twins.ELEMENTS == elements == tuple(range(6))
    assert twins.STRUCTS == (runs.IN_BODY, runs.IN_TOPIC, runs.IN_PARTITION) == tuple(range(3))
    assert twins.SINCE == (runs.COMPACT_SINCE, runs.TOPIC_IDS_SINCE, runs.TOPIC_ID_BYTES)
    assert twins.PACKED == (runs.PACKED_TOPIC_BYTES, runs.INDEX_BYTES, runs.RECORDS_SIZE_BYTES)
    assert twins.MAX_FEED_STEPS == topic_runs.MAX_FEED_STEPS


def test_the_limits_and_masks_of_the_event_loop_are_the_same(twins):
    """Every constant of these modules is one of its type file."""
    for module, found in ((loop_limits, twins.LOOP_LIMITS), (masks, twins.MASKS)):
        assert {name: value for name, value in vars(module).items() if name.isupper()} == found
