"""The head of ShareFetch requests: where the bytes stand that a quota lowers."""

import pytest

from wire.primitives import encode_compact
from wire.share_fetch import ShareFetchHead, read_share_head

FIELDS = (500, 1, 50_000)
NAMES = encode_compact(b"a-group") + encode_compact(b"m" * 200)
BODY = NAMES + b"".join(each.to_bytes(4, "big") for each in (7, *FIELDS)) + b"\x01" * 9


@pytest.mark.parametrize("start", [0, 5])
def test_the_fields_are_read_after_both_names(start: int) -> None:
    """The offsets count from the body's start, wherever it is in the buffer."""
    head = read_share_head(bytes(start) + BODY, start, start + len(BODY))
    at = len(NAMES) + 4
    assert head == ShareFetchHead(*FIELDS, at + 4, at + 8)
    assert BODY[head.max_bytes_at : head.max_bytes_at + 4] == (50_000).to_bytes(4, "big")


def test_a_null_name_has_no_bytes() -> None:
    """The offsets are those of its one byte of length."""
    head = read_share_head(b"\0\0" + BODY[len(NAMES) :], 0, 18)
    assert head == ShareFetchHead(*FIELDS, 10, 14)


def test_a_head_that_is_cut_is_none_at_every_length() -> None:
    """Bytes after the end belong to another frame, and are not read."""
    whole = len(NAMES) + 16
    assert read_share_head(BODY, 0, whole) is not None
    assert all(read_share_head(BODY, 0, end) is None for end in range(whole))


def test_a_name_that_cannot_end_is_none() -> None:
    """The session refuses such a frame, because no more of it can come."""
    assert read_share_head(b"\xff" * 40, 0, 40) is None
