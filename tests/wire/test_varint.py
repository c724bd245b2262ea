"""Unsigned varints: what is written is read, and what Kafka accepts is accepted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import WireError
from wire.varint import encode_uvarint, try_uvarint, uvarint


@given(st.integers(0, 0xFFFF_FFFF))
def test_uvarint_reads_what_encode_uvarint_wrote(value: int) -> None:
    """Every 32-bit value makes the round trip, in at most five bytes."""
    data = encode_uvarint(value)
    assert len(data) <= 5
    assert uvarint(data, 0, len(data)) == (value, len(data))


@pytest.mark.parametrize(
    ("hexed", "value"),
    [("00", 0), ("7f", 127), ("8001", 128), ("8000", 0), ("ffffffff0f", 0xFFFF_FFFF)],
)
def test_uvarint_takes_what_kafka_takes(hexed: str, value: int) -> None:
    """A varint has seven bits a byte, the lowest first; a longer form of a small value is accepted."""
    data = bytes.fromhex(hexed)
    assert uvarint(data, 0, len(data)) == (value, len(data))


@pytest.mark.parametrize("hexed", ["", "80", "ffffffff", "ffffffff10", "808080808000"])
def test_uvarint_refuses_cut_long_and_wide_ones(hexed: str) -> None:
    """A varint without an end, with a sixth byte or with a 33rd bit is a WireError."""
    data = bytes.fromhex(hexed)
    with pytest.raises(WireError):
        uvarint(data, 0, len(data))


@pytest.mark.parametrize("value", [-1, 1 << 32])
def test_encode_uvarint_refuses_a_value_beyond_32_bits(value: int) -> None:
    """Only 0 to 2^32 - 1 can be written."""
    with pytest.raises(WireError):
        encode_uvarint(value)


@given(st.integers(0, 2**32 - 1))
def test_try_uvarint_waits_for_its_last_byte(value: int) -> None:
    """A varint is read when it is complete; at every earlier byte the reader asks for more."""
    data = encode_uvarint(value) + b"\x01"
    size = len(data) - 1
    assert try_uvarint(data, 0, len(data)) == (value, size)
    assert all(try_uvarint(data, 0, cut) == (0, -1) for cut in range(size))


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00"])
def test_try_uvarint_refuses_a_33rd_bit_and_a_sixth_byte(data: bytes) -> None:
    """A varint that is too wide or too long raises at once, because no further byte can mend it."""
    with pytest.raises(WireError):
        try_uvarint(data, 0, len(data))
