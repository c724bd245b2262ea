"""What a client may see of replies, and the two parts of them that are read by hand: settings and a cursor.

- A topic of CreateTopics is shown with its settings if its configs may be described (v5+, KIP-525). Else they are -1
  and empty, and a tag has the code, as Kafka answers.
- The cursor of DescribeTopicPartitions names the first topic of the next page. A hidden one is never named: the next
  page then begins behind the last topic that this page shows. Nothing that is shown lies between the two, so the client
  misses no topic and sees none twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from wire.authorization import Operation, ResourceType
from wire.errors import ErrorCode
from wire.primitives import (
    INT16,
    Buffer,
    compact_count,
    compact_length,
    encode_compact,
    skip,
    skip_compact,
    skip_tags,
)
from wire.varint import encode_uvarint, uvarint

if TYPE_CHECKING:
    from collections.abc import Callable

NOT_ASKED: Final = -(1 << 31)
"""AuthorizedOperations of a request that did not ask for them."""
NO_SETTINGS: Final = b"\xff\xff\xff\xff" + b"\xff\xff" + b"\1"
"""Partitions, replication factor and configs of a created topic that are not shown."""
_REFUSED_SETTINGS: Final = b"\0\2" + INT16.pack(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
"""The tag TopicConfigErrorCode."""
_BEHIND: Final = "!"
"""Sorts before each character of a topic's name, and is none: no topic is between a name and this after it."""


class View(NamedTuple):
    """What one client may see."""

    allows: Callable[[ResourceType, str, Operation], bool]
    """Of a name of this kind."""
    mask: Callable[[ResourceType, str], int] | None = None
    """All that may be done with a name, as AuthorizedOperations say it. None: they stay."""
    cluster_mask: int | None = None
    """The same of the cluster."""
    name_of: Callable[[bytes], str | None] = lambda _: None
    """Names of topics by id."""
    next_topic: Callable[[str], str | None] = lambda name: name
    """The first name after a hidden one that may be shown, as far as is known; None: there is none."""
    asks_by_id: bool = False
    """Whether a Metadata request has ids: a topic that is hidden is refused, and not left out."""

    def shows(self, name: str) -> bool:
        """Return whether a topic is shown."""
        return self.allows(ResourceType.TOPIC, name, Operation.DESCRIBE)

    def shows_id(self, topic_id: bytes) -> bool:
        """Return whether an item is shown that has an id and no name: not if the name is unknown."""
        name = self.name_of(topic_id)
        return name is not None and self.shows(name)

    def shows_nameless(self, topic_id: bytes) -> bool:
        """Return whether an item is shown that has a name for some: one with an unknown id tells nothing."""
        name = self.name_of(topic_id)
        return name is None or self.shows(name)


def after_settings(buf: Buffer, pos: int, end: int) -> int:
    """Return the offset after partitions, replication factor and configs of a created topic (v5+).

    Raises `WireError` if they end too early.
    """
    count, pos = compact_count(buf, skip(pos, 6, end), end)
    for _ in range(count):
        pos = skip_compact(buf, skip_compact(buf, pos, end), end)  # name, value
        pos = skip_tags(buf, skip(pos, 3, end), end)
    return pos


def refused_settings(buf: Buffer, pos: int, end: int) -> tuple[bytes, int]:
    """Return the tags of a created topic whose settings are not shown, and the offset after those that it has.

    Raises `WireError` if they are malformed.
    """
    stop = skip_tags(buf, pos, end)
    count, pos = uvarint(buf, pos, end)
    if count and buf[pos] == 0:  # it has a code already
        return encode_uvarint(count) + buf[pos:stop], stop
    return encode_uvarint(count + 1) + _REFUSED_SETTINGS + buf[pos:stop], stop


def shown_cursor(
    buf: Buffer, pos: int, end: int, view: View, last: str | None
) -> tuple[bytes | None, int]:
    """Return what stands for the cursor at `pos` if that names a hidden topic, else None; and the offset after it.

    `last` is the last topic that the page shows. Raises `WireError` if the cursor is malformed.
    """
    if buf[pos] > 127:  # null
        return None, pos + 1
    length, at = compact_length(buf, pos + 1, end)
    name = buf[at : at + max(length, 0)].decode()
    stop = skip_tags(buf, skip(at + max(length, 0), 4, end), end)
    if view.shows(name):
        return None, stop
    is_behind = last is not None and last < name
    after = f"{last}{_BEHIND}" if is_behind else view.next_topic(name)
    if after is None:
        return b"\xff", stop
    return b"\1" + encode_compact(after.encode()) + bytes(5), stop  # partition 0, no tags
