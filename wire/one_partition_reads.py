"""The bytes of a Produce response that `wire.untagged_reply` looks at.

The compiled build has the same functions in C (`one_partition_reads.pxd`); `tests/compiled/test_twins.py` compares
them. They are C functions of Python's library here, so that a call costs nothing more.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

head_at: Final[Callable[[bytearray, int], tuple[int, int]]] = Struct(">HB").unpack_from
"""(buf, pos) -> two integers: the header's tag section and the count of topics; the byte after them."""
_TAIL: Final = Struct(
    ">B30xI4xB"
)  # 30: index, error, base offset, append time, start; 4: throttle time
tail_at: Final[Callable[[bytearray, int], tuple[int, int, int]]] = _TAIL.unpack_from
"""(buf, pos) -> three integers: the count of partitions; what follows the partition's fixed fields; the last byte."""
TAIL_BYTES: Final = _TAIL.size
