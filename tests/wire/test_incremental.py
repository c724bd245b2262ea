"""Incremental readers return a value, ask for more bytes, or raise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import WireError
from wire.incremental import MAX_STRING_BYTES, try_size, try_string
from wire.primitives import INT16, INT32, encode_uvarint, try_uvarint


@given(st.integers(0, 2**32 - 1))
def test_uvarint_waits_for_its_last_byte(value):
    """A varint is read when it is complete; at every earlier byte the reader asks for more."""
    data = encode_uvarint(value) + b"\x01"
    size = len(data) - 1
    assert try_uvarint(data, 0, len(data)) == (value, size)
    assert all(try_uvarint(data, 0, cut) == (0, -1) for cut in range(size))


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00"])
def test_uvarint_refuses_a_33rd_bit_and_a_sixth_byte(data):
    """A varint that is too wide or too long raises at once, because no further byte can mend it."""
    with pytest.raises(WireError):
        try_uvarint(data, 0, len(data))


@given(st.integers(-1, MAX_STRING_BYTES), st.booleans())
def test_a_strings_length_is_read_before_its_bytes(length, compact):
    """The length is known before the bytes are there; -1 is null."""
    data = encode_uvarint(length + 1) if compact else INT16.pack(length)
    assert try_string(data, 0, len(data), compact=compact) == (length, len(data))
    assert try_string(data, 0, len(data) - 1, compact=compact)[1] == -1


def test_a_string_longer_than_kafkas_limit_is_refused():
    """A string that Kafka refuses is refused before a byte of it is kept."""
    for compact, data in ((True, encode_uvarint(MAX_STRING_BYTES + 2)), (False, INT16.pack(-2))):
        with pytest.raises(WireError):
            try_string(data, 0, len(data), compact=compact)


@given(st.integers(-1, 2**31 - 1), st.booleans())
def test_a_size_is_read_when_it_is_complete(size, compact):
    """A size is read when all its bytes are there; -1 is null."""
    data = encode_uvarint(size + 1) if compact else INT32.pack(size)
    assert try_size(data, 0, len(data), compact=compact) == (size, len(data))
    assert try_size(data, 0, len(data) - 1, compact=compact)[1] == -1


def test_a_size_below_null_is_refused():
    """A classic size below -1 is malformed."""
    with pytest.raises(WireError):
        try_size(INT32.pack(-2), 0, 4, compact=False)
