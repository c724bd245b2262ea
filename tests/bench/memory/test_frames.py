"""The frames of our own."""

import struct

import pytest

from bench.memory.frames import (
    KIB,
    MIB,
    error_of,
    fetch_frame,
    produce_frame,
)
from tests.support.messages import frames as f
from wire.produce_partitions import pack_topics, unpack


def test_a_produce_is_as_large_as_was_asked() -> None:
    """To the byte, though the lengths inside it grow with it; and it is a Produce v3 of that topic and partition."""
    body_at = 4 + 8 + 2 + len("memory")
    for size_bytes in (200, KIB, 64 * KIB - 1, 64 * KIB, MIB):
        made = produce_frame("topic", size_bytes, 3)
        assert struct.unpack_from(">i", made)[0] == size_bytes == len(made) - 4
        assert struct.unpack_from(">hh", made, 4) == (f.PRODUCE, 3)
        packed, _ = pack_topics(made, body_at + 2 + 2 + 4, len(made), 3)
        assert unpack(packed, 3) == [("topic", (3,))]


def test_what_is_too_small_for_a_record_is_refused() -> None:
    """Nothing of another size is given out instead."""
    with pytest.raises(ValueError, match="no Produce"):
        produce_frame("topic", 20)


def test_the_error_of_a_reply_is_found() -> None:
    """Zero where there is none, the code where there is one; what is no such reply says so."""
    good = f.produce_reply(1, "some-topic")[4:]
    assert error_of(good) == 0
    at = 8 + 2 + len("some-topic") + 8
    assert error_of(good[:at] + struct.pack(">h", 10) + good[at + 2 :]) == 10
    with pytest.raises(ValueError, match="not a Produce reply"):
        error_of(good[:12])


def test_a_fetch_is_framed() -> None:
    """Its length is that of the bytes that follow, and its API is Fetch."""
    frame = fetch_frame("t", MIB)
    assert f.split(frame) == [frame]
    assert struct.unpack_from(">h", frame, 4)[0] == f.FETCH
