"""The first bytes of frames, read by the session's fast loops.

The compiled build has the same functions in C (`frame_heads.pxd`); `tests/proxy/core/session/test_frame_heads.py`
compares them. They are C functions of Python's library here, so that a call costs nothing more.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

request_at: Final = Struct(">iii").unpack_from
"""(buf, pos) -> the size, `api_key << 16 | api_version`, and the correlation id of a request."""
reply_at: Final = Struct(">ii").unpack_from
"""(buf, pos) -> the size and the correlation id of a reply."""
has_prefix: Final = bytearray.startswith
"""(buf, prefix, pos) -> whether the bytes from `pos` on begin with `prefix`."""
