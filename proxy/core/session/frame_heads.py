"""The first bytes of frames, read by the session's fast loops.

The compiled build has the same functions in C (`frame_heads.pxd`); `tests/compiled/test_twins.py` compares them. All
but `copy` are C functions of Python's library here, so that a call costs nothing more.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

REQUEST_BYTES: Final = 12
"""What `request_at` reads."""
REPLY_BYTES: Final = 8
MAX_KEPT_BYTES: Final = 1024
"""A whole Produce up to this size is kept as it is, for a reply made here."""
request_at: Final = Struct(">iii").unpack_from
"""(buf, pos) -> the size, `api_key << 16 | api_version`, and the correlation id of a request."""
reply_at: Final = Struct(">ii").unpack_from
"""(buf, pos) -> the size and the correlation id of a reply."""
has_prefix: Final = bytearray.startswith
"""(buf, prefix, pos) -> whether the bytes from `pos` on begin with `prefix`."""


def copy(buf: bytearray, start: int, stop: int) -> bytearray:
    """Return buf[start:stop]. Raises IndexError if that is not inside the buffer."""
    if not 0 <= start <= stop <= len(buf):
        raise IndexError(f"[{start}:{stop}] is not inside {len(buf)} bytes")
    return buf[start:stop]
