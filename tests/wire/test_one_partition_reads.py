"""The bytes that tell a Produce response of one partition, read at any place of a buffer."""

from struct import error

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire import one_partition_reads
from wire.one_partition_reads import TAIL_BYTES

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
