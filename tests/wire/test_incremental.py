"""Readers of bytes that may not all be there: come again, or never."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import WireError
from wire.incremental import MAX_STRING_BYTES, try_size, try_string, try_uvarint
from wire.primitives import INT16, INT32, encode_uvarint


@given(st.integers(0, 2**32 - 1))
def test_uvarint_waits_for_its_last_byte(value):
    """A varint is read when whole, and asks for more at every earlier byte."""
    data = encode_uvarint(value) + b"\x01"
    size = len(data) - 1
    assert try_uvarint(data, 0, len(data)) == (value, size)
    assert all(try_uvarint(data, 0, cut) == (0, -1) for cut in range(size))


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00"])
def test_uvarint_bounds(data):
    """A 33rd bit and a sixth byte are errors that no further byte can mend."""
    with pytest.raises(WireError):
        try_uvarint(data, 0, len(data))


@given(st.integers(-1, MAX_STRING_BYTES), st.booleans())
def test_string_lengths(length, compact):
    """A string's length is read before its bytes are there; -1 is null."""
    data = encode_uvarint(length + 1) if compact else INT16.pack(length)
    assert try_string(data, 0, len(data), compact=compact) == (length, len(data))
    assert try_string(data, 0, len(data) - 1, compact=compact)[1] == -1


def test_strings_too_long():
    """What Kafka refuses as a string is refused before a byte of it is kept."""
    for compact, data in ((True, encode_uvarint(MAX_STRING_BYTES + 2)), (False, INT16.pack(-2))):
        with pytest.raises(WireError):
            try_string(data, 0, len(data), compact=compact)


@given(st.integers(-1, 2**31 - 1), st.booleans())
def test_sizes(size, compact):
    """A size is read when whole; -1 is null."""
    data = encode_uvarint(size + 1) if compact else INT32.pack(size)
    assert try_size(data, 0, len(data), compact=compact) == (size, len(data))
    assert try_size(data, 0, len(data) - 1, compact=compact)[1] == -1


def test_sizes_below_null():
    """A classic size below -1 is malformed."""
    with pytest.raises(WireError):
        try_size(INT32.pack(-2), 0, 4, compact=False)
