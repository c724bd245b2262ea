"""A ClientHello is whole at the same byte, and refused at the same byte, in any pieces and in any records."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.tls.client_hello import MAX_HELLO_BYTES, ClientHello, HelloError


def message(size: int, kind: int = 1) -> bytes:
    """Return a handshake message with a body of `size` bytes."""
    return bytes([kind]) + size.to_bytes(3, "big") + bytes(size)


def in_records(data: bytes, cuts: list[int]) -> bytes:
    """Return the data in records that end at these places."""
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    return b"".join(
        b"\x16\x03\x01" + (stop - start).to_bytes(2, "big") + data[start:stop]
        for start, stop in pairwise(places)
    )


def feed(data: bytes, cuts: list[int]) -> tuple[int, str]:
    """Feed the data in pieces; return after how many bytes it was whole or refused, and why. -1: neither."""
    hello = ClientHello()
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, stop in pairwise(places):
        before = hello.missing_bytes
        try:
            hello.feed(data[start:stop])
        except HelloError as error:
            return stop, str(error)
        if not hello.missing_bytes:
            return stop, ""
        assert hello.missing_bytes > 0
        if stop - start < before:
            assert hello.missing_bytes >= before - (stop - start)
    return -1, ""


@given(
    st.integers(0, 3000),
    st.lists(st.integers(0, 5000), max_size=8),
    st.lists(st.integers(0, 5000), max_size=8),
)
def test_a_hello_is_whole_with_its_last_byte_and_not_before(size, records, cuts):
    """Its records may be cut anywhere; the parser asks for no byte more than it needs."""
    data = in_records(message(size), records)
    assert feed(data, cuts) == (len(data), "")
    assert feed(data[:-1], cuts)[0] == -1
    hello = ClientHello()
    asked = 0
    while hello.missing_bytes:
        at = len(hello.received)
        hello.feed(data[at : at + hello.missing_bytes])
        asked += 1
    assert bytes(hello.received) == data
    assert asked <= 3 + 3 * (len(records) + 1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x15\x03\x01\x00\x02\x01\x00", "no handshake"),
        (b"\x16\x02\x01\x00\x05\x01", "version 2"),
        (b"\x16\x03\x01\x00\x00", "0 bytes"),
        (b"\x16\x03\x01\x40\x01", "16385 bytes"),
        (in_records(message(10, kind=2), []), "2 instead of ClientHello"),
        (in_records(message(10), [6])[:11] + b"\x14\x03\x01\x00\x01\x01", "no handshake"),
        (in_records(b"\x01\x01\x00\x00", []), "more than 32768 bytes"),
    ],
)
def test_other_bytes_are_refused_in_any_pieces(data, words):
    """With the same words, whether they come at once or one by one."""
    one = feed(data, list(range(len(data))))
    assert words in one[1]
    assert feed(data, [])[1] == one[1]


def test_a_hello_in_tiny_records_is_bounded():
    """All that is kept counts, also the heads of the records."""
    data = in_records(message(MAX_HELLO_BYTES // 2), list(range(MAX_HELLO_BYTES)))
    hello = ClientHello()

    def feed_all() -> None:
        while hello.missing_bytes:
            at = len(hello.received)
            hello.feed(data[at : at + min(hello.missing_bytes, hello.room_bytes)])

    with pytest.raises(HelloError, match="more than"):
        feed_all()
    assert len(hello.received) <= MAX_HELLO_BYTES
