"""The C functions of the type files return what the functions of their modules return."""

from struct import error, pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.session import frame_heads, paths
from proxy.shell import loop_limits
from wire import one_partition_reads

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


def test_a_head_before_the_buffer_is_an_error(twins):
    """A negative place is not counted from the end, as Python's own function does: no frame begins there."""
    for read in (twins.request_at, twins.reply_at, twins.head_at, twins.tail_at):
        with pytest.raises(IndexError):
            read(bytearray(60), -12)


def test_the_constants_are_the_same(twins):
    """Those of heads, and the paths of requests and of replies."""
    heads = frame_heads
    assert twins.HEADS == (heads.REQUEST_BYTES, heads.REPLY_BYTES, heads.MAX_KEPT_BYTES)
    requests = (paths.PASSES, paths.GATED, paths.ASKED, paths.SHOWN, paths.GENERAL)
    assert twins.REQUEST_PATHS == requests == tuple(range(5))
    assert twins.REPLY_PATHS == (paths.PASSES, paths.IF_ONE_PARTITION, paths.HEARD) == (0, 1, 2)


def test_the_limits_of_the_event_loop_are_the_same(twins):
    """Every constant of the module is one of the type file."""
    assert {
        name: value for name, value in vars(loop_limits).items() if name.isupper()
    } == twins.LOOP_LIMITS
