"""Incremental readers return a value, ask for more bytes, or raise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import WireError
from wire.incremental import MAX_STRING_BYTES, try_size, try_string
from wire.primitives import INT16, INT32
from wire.varint import encode_uvarint


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
