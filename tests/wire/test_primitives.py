"""The primitive readers and writers, varints, and the readers of bytes that still come: what they take and refuse."""

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.messages.frames import bytes_field
from wire import primitives as p
from wire.errors import WireError
from wire.incremental import MAX_STRING_BYTES, try_size, try_string
from wire.primitives import INT16, INT32
from wire.varint import encode_uvarint, try_uvarint, uvarint

Reader = Callable[[bytes, int, int], int | tuple[int, int]]

READERS: list[Reader] = [
    uvarint,
    p.string_length,
    p.compact_length,
    p.bytes_length,
    p.array_count,
    p.compact_count,
    p.skip_string,
    p.skip_compact,
    p.skip_bytes,
    p.skip_tags,
]


def outcome(reader: Reader, buf: bytes, pos: int, end: int) -> int | tuple[int, int] | str:
    """Return the reader's result, or the text of its WireError; any other exception escapes."""
    try:
        return reader(buf, pos, end)
    except WireError as error:
        return str(error)


@given(
    reader=st.sampled_from(READERS),
    before=st.binary(max_size=3),
    data=st.binary(max_size=40),
    behind=st.binary(max_size=40),
)
def test_readers_raise_wire_error_only_and_never_read_past_end(
    reader: Reader, before: bytes, data: bytes, behind: bytes
) -> None:
    """Any bytes give a value or a WireError, and the bytes after `end` do not matter."""
    start, end = len(before), len(before) + len(data)
    alone = outcome(reader, before + data, start, end)
    assert outcome(reader, before + data + behind, start, end) == alone
    if not isinstance(alone, str):
        pos = alone if isinstance(alone, int) else alone[1]
        assert start < pos <= end


@given(st.none() | st.binary(max_size=300))
def test_strings_and_bytes_are_skipped_as_they_were_encoded(value: bytes | None) -> None:
    """Each skip ends just after the bytes of its encoder; length -1 is null."""
    length = -1 if value is None else len(value)
    for encode, skip, read in (
        (p.encode_string, p.skip_string, p.string_length),
        (p.encode_compact, p.skip_compact, p.compact_length),
        (bytes_field, p.skip_bytes, p.bytes_length),
    ):
        data = encode(value)
        assert skip(data + b"??", 0, len(data)) == len(data)
        found, pos = read(data, 0, len(data))
        assert (found, data[pos:]) == (length, value or b"")


def test_a_string_too_long_for_its_length_field_is_refused() -> None:
    """A string for an int16 length has at most 32,767 bytes."""
    assert len(p.encode_string(bytes(32_767))) == 32_769
    with pytest.raises(WireError):
        p.encode_string(bytes(32_768))


@pytest.mark.parametrize(
    ("read", "hexed"),
    [
        (p.string_length, "fffe"),
        (p.bytes_length, "fffffffe"),
        (p.array_count, "fffffffe"),
        (p.string_length, "00026b"),
        (p.bytes_length, "000000026b"),
        (p.compact_length, "036b"),
    ],
)
def test_lengths_below_null_or_beyond_the_end_are_refused(read: Reader, hexed: str) -> None:
    """A length below -1 or beyond `end` is refused; -1 means null."""
    with pytest.raises(WireError):
        read(bytes.fromhex(hexed), 0, len(hexed) // 2)


@example(count=-1, least=7, there=0)
@given(count=st.integers(-1, 2**31 - 2), least=st.integers(1, 40), there=st.integers(0, 200))
def test_a_count_that_cannot_fit_is_refused_before_any_element_is_read(
    count: int, least: int, there: int
) -> None:
    """`count` elements of at least `least` bytes each must fit into the bytes that are left."""
    fits = count * least <= there
    for head, read in (
        (p.encode_count(count), p.array_count),
        (p.encode_compact_count(count), p.compact_count),
    ):
        data = head + bytes(there)
        if fits:
            assert read(data, 0, len(data), least) == (count, len(head))
        else:
            with pytest.raises(WireError):
                read(data, 0, len(data), least)


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.binary(max_size=200), max_size=64))
def test_tag_sections_are_skipped_whole(fields: dict[int, bytes]) -> None:
    """Up to 64 fields with ascending tags are skipped, with any content."""
    data = encode_uvarint(len(fields)) + b"".join(
        encode_uvarint(tag) + encode_uvarint(len(fields[tag])) + fields[tag]
        for tag in sorted(fields)
    )
    assert p.skip_tags(data + b"\x07", 0, len(data)) == len(data)


@pytest.mark.parametrize(
    ("hexed", "rule"),
    [
        ("0201000000", "tag 0 follows tag 1"),
        ("0200000000", "tag 0 follows tag 0"),
        ("010005aabb", "5 bytes needed"),
        ("41" + "0000" * 65, "65 tagged fields"),
        ("0100", "cut off"),
    ],
)
def test_tag_sections_that_break_a_rule_are_refused(hexed: str, rule: str) -> None:
    """Descending or repeated tags, sizes beyond the end, and more than 64 fields are refused."""
    data = bytes.fromhex(hexed)
    with pytest.raises(WireError, match=rule):
        p.skip_tags(data, 0, len(data))


def test_an_element_budget_ends_in_a_wire_error() -> None:
    """A budget may be spent to zero; one element more raises, and null arrays (-1) cost nothing."""
    assert p.spend(10, 10) == 0
    assert p.spend(10, -1) == 10
    with pytest.raises(WireError):
        p.spend(10, 11)


@pytest.mark.parametrize("size_bytes", [-1, 3])
def test_skip_refuses_a_target_outside_the_bytes(size_bytes: int) -> None:
    """A skip neither moves backwards nor past the end."""
    assert p.skip(1, 2, 3) == 3
    with pytest.raises(WireError):
        p.skip(1, size_bytes, 3)


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


def test_cut_long_and_wide_varints_are_refused() -> None:
    """Without an end, with a sixth byte or a 33rd bit; where bytes still come, if no further one can mend it."""
    for hexed in ("", "80", "ffffffff", "ffffffff10", "808080808000"):
        data = bytes.fromhex(hexed)
        with pytest.raises(WireError):
            uvarint(data, 0, len(data))
    for data in (b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00"):
        with pytest.raises(WireError):
            try_uvarint(data, 0, len(data))
    for value in (-1, 1 << 32):
        with pytest.raises(WireError):
            encode_uvarint(value)


@given(st.integers(0, 2**32 - 1))
def test_try_uvarint_waits_for_its_last_byte(value: int) -> None:
    """A varint is read when it is complete; at every earlier byte the reader asks for more."""
    data = encode_uvarint(value) + b"\x01"
    size = len(data) - 1
    assert try_uvarint(data, 0, len(data)) == (value, size)
    assert all(try_uvarint(data, 0, cut) == (0, -1) for cut in range(size))


@given(st.integers(-1, MAX_STRING_BYTES), st.booleans())
def test_a_strings_length_is_read_before_its_bytes(length, compact):
    """The length is known before the bytes are there; -1 is null."""
    data = encode_uvarint(length + 1) if compact else INT16.pack(length)
    assert try_string(data, 0, len(data), compact) == (length, len(data))
    assert try_string(data, 0, len(data) - 1, compact)[1] == -1


def test_a_length_that_kafka_refuses_is_refused():
    """Before a byte of it is kept: a string beyond Kafka's limit, a string or a size below null."""
    for compact, data in ((True, encode_uvarint(MAX_STRING_BYTES + 2)), (False, INT16.pack(-2))):
        with pytest.raises(WireError):
            try_string(data, 0, len(data), compact)
    with pytest.raises(WireError):
        try_size(bytearray(INT32.pack(-2)), 0, 4, False)


@given(st.integers(-1, 2**31 - 1), st.booleans())
def test_a_size_is_read_when_it_is_complete(size, compact):
    """A size is read when all its bytes are there; -1 is null."""
    data = bytearray(encode_uvarint(size + 1) if compact else INT32.pack(size))
    assert try_size(data, 0, len(data), compact) == (size, len(data))
    assert try_size(data, 0, len(data) - 1, compact)[1] == -1
