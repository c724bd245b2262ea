"""Topics that requests name again and again, kept by the bytes that name them: one for all readers of a process.

- Most requests name one partition of a topic. The key is the bytes of that topic's name, the count of its partitions,
  and the partition: one look finds all three. The order in which a client lists its topics does not matter.
- A key of a version that is not flexible begins with a zero, any other does not: they share one dict.
- At most MAX_REFS are kept, some 1.5 MB; then all are forgotten. A client that names others each time has each of its
  topics read, as without this.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from wire.primitives import Buffer, int16_at

MAX_REFS: Final = 4_096
MAX_SIZE: Final = 127
"""Of a key's name in bytes; a compact one counts its size, too."""

_COMPACT_BYTES: Final = 5
"""A count of one byte, and a partition; the size that a compact string begins with counts itself."""
_CLASSIC_BYTES: Final = 10
"""A size, a count and a partition."""


class TopicRef(NamedTuple):
    """A topic that a request names, and the partitions that it names of it.

    `name` is None if the request carries an id whose name is not known; then `topic_id` is what identifies it.
    """

    name: str | None
    topic_id: bytes | None
    """The 16 bytes of the id; None if the request carries a name."""
    partitions: tuple[int, ...]

    @property
    def key(self) -> str | bytes:
        """The name; the id if the name is not known."""
        return self.name if self.name is not None else self.topic_id or b""


refs: Final[dict[bytes, TopicRef]] = {}
"""By key: the readers look here first."""

compact_key: Final = [
    Struct(f"{size + _COMPACT_BYTES}s").unpack_from for size in range(MAX_SIZE + 1)
]
"""By the size that a compact name begins with: cuts out a key."""
classic_key: Final = [
    Struct(f"{size + _CLASSIC_BYTES}s").unpack_from for size in range(MAX_SIZE + 1)
]
"""By the size of a name: cuts out a key."""


def keep_compact(buf: Buffer, start: int, ref: TopicRef) -> None:
    """Keep a topic with one partition that was read at `start` in a flexible version."""
    size = buf[start]
    if (
        0 < size <= MAX_SIZE and buf[start + size] == 2
    ):  # the count: a longer varint may say the same
        _keep(bytes(compact_key[size](buf, start)[0]), ref)


def keep_classic(buf: Buffer, start: int, ref: TopicRef) -> None:
    """Keep a topic with one partition that was read at `start` in a version that is not flexible."""
    size = int16_at(buf, start)[0]
    if 0 <= size <= MAX_SIZE:
        _keep(classic_key[size](buf, start)[0], ref)


def _keep(key: bytes, ref: TopicRef) -> None:
    if len(refs) >= MAX_REFS:
        refs.clear()
    refs[key] = ref
