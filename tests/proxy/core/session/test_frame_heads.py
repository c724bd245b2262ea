"""The readers of frame heads: the same results in Python and, in the compiled build, in C.

The session's module calls them by these names; in the compiled build its calls are the C functions. So the tests feed a
session, too (`test_differential`, `test_session`); here is what the functions themselves return.
"""

from struct import error, pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.session import frame_heads

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)


@given(INT32, INT32, INT32, st.binary(max_size=9), st.binary(max_size=9))
def test_the_integers_of_a_head_are_read_at_any_place(size, kind, correlation_id, before, after):
    """Signed, big-endian, wherever the frame begins."""
    buf = bytearray(before + pack(">iii", size, kind, correlation_id) + after)

    assert tuple(frame_heads.request_at(buf, len(before))) == (size, kind, correlation_id)
    assert tuple(frame_heads.reply_at(buf, len(before))) == (size, kind)


@given(st.binary(max_size=40), st.binary(max_size=5), st.integers(0, 45))
def test_a_prefix_is_compared_within_the_buffer(data, prefix, pos):
    """As a slice of the buffer would be, also where the buffer ends."""
    found = frame_heads.has_prefix(bytearray(data), prefix, pos)

    assert found == bytearray(data).startswith(prefix, pos)


@pytest.mark.parametrize("pos", [0, 5])
def test_no_byte_after_the_buffer_is_read(pos):
    """A head that is cut is an error, which ends one session."""
    with pytest.raises((error, IndexError)):
        frame_heads.request_at(bytearray(pos + 11), pos)
    with pytest.raises((error, IndexError)):
        frame_heads.reply_at(bytearray(pos + 7), pos)
