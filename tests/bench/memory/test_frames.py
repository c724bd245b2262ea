"""The frames of the bench's client."""

from __future__ import annotations

import struct

import pytest

from bench.memory.frames import (
    KIB,
    MIB,
    api_versions_frame,
    error_of,
    fetch_frame,
    produce_frame,
)
from tests.support import frames as f
from wire.produce_partitions import read_topics


@pytest.mark.parametrize("size_bytes", [200, KIB, 64 * KIB - 1, 64 * KIB, MIB])
def test_a_produce_has_exactly_the_requested_size(size_bytes: int) -> None:
    """The lengths inside it grow with it; it is a Produce v3 of that topic and partition."""
    made = produce_frame("topic", size_bytes, 3)
    assert struct.unpack_from(">i", made)[0] == size_bytes == len(made) - 4
    assert struct.unpack_from(">hh", made, 4) == (f.PRODUCE, 3)
    body_at = 4 + 8 + 2 + len("memory")
    assert read_topics(made, body_at + 2 + 2 + 4, len(made), 3)[0] == [("topic", [3])]


def test_a_size_too_small_for_a_record_is_refused() -> None:
    """No frame of another size is returned."""
    with pytest.raises(ValueError, match="no Produce"):
        produce_frame("topic", 20)


def test_the_error_of_a_reply_is_found() -> None:
    """Zero or the code; a frame that is no such reply raises."""
    good = f.produce_reply(1, "some-topic")[4:]
    assert error_of(good) == 0
    at = 8 + 2 + len("some-topic") + 8
    assert error_of(good[:at] + struct.pack(">h", 10) + good[at + 2 :]) == 10
    with pytest.raises(ValueError, match="not a Produce reply"):
        error_of(good[:12])


def test_the_other_requests_are_framed() -> None:
    """Their length is that of the bytes after it, their API the right one."""
    for frame, key in ((fetch_frame("t", MIB), f.FETCH), (api_versions_frame(), f.API_VERSIONS)):
        assert f.split(frame) == [frame]
        assert struct.unpack_from(">h", frame, 4)[0] == key
