"""Reads topic names and ids from a Metadata response that streams, in chunks of any size (v10+).

- The reader is fed the body from its first byte. It keeps only the element that is incomplete.
- It never raises. When the body cannot be read, it stops and sets `is_incomplete`.
- The work is linear in the bytes: a cut element is tried again when twice as many of its bytes have arrived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wire.errors import WireError
from wire.primitives import Buffer, compact_count, compact_length, skip, skip_compact, skip_tags

if TYPE_CHECKING:
    from wire.apis import Api

MAX_KEPT_BYTES: Final = 64 << 10
"""No broker, and no topic up to its partitions, is longer."""
MAX_NAMES: Final = 100_000
_MAX_NAME_BYTES: Final = 249
_ID_BYTES: Final = 16
_PARTITION_FIXED_BYTES: Final = 14
_START, _BROKERS, _CLUSTER, _TOPICS, _PARTITIONS, _DONE = range(6)


class TopicNames:
    """Collects topic id to name in `names`. `is_incomplete` is True if a part of the body could not be read."""

    __slots__ = ("_kept", "_left", "_partitions", "_step", "_try_bytes", "is_incomplete", "names")

    def __init__(self, api: Api) -> None:
        self.names: dict[bytes, str] = {}
        self.is_incomplete = False
        self._kept = bytearray()
        self._step = _START if api.version >= 10 else _DONE
        self._left = 0  # brokers to read, then topics
        self._partitions = 0  # left of the current topic
        self._try_bytes = 0

    def feed(self, buf: Buffer, start: int, end: int) -> None:
        """Take the next part of the body, `buf[start:end]`."""
        kept = self._kept
        if self._step == _DONE:
            return
        kept += memoryview(buf)[start:end]
        if len(kept) < self._try_bytes:
            return
        pos = 0
        try:
            while self._step != _DONE:
                pos = self._next(kept, pos, len(kept))
        except (WireError, UnicodeDecodeError):
            pass
        del kept[:pos]
        self._try_bytes = 2 * len(kept)
        if len(kept) > MAX_KEPT_BYTES or len(self.names) > MAX_NAMES:
            self.is_incomplete = True
            self._step = _DONE
        if self._step == _DONE:
            kept.clear()

    def close(self) -> None:
        """End the body: read the bytes that are kept, which may be a whole element although they have not doubled."""
        self._try_bytes = 0
        self.feed(b"", 0, 0)
        self.is_incomplete = self.is_incomplete or bool(self._kept)

    def _next(self, buf: bytearray, pos: int, end: int) -> int:
        """Return the offset after the next element. Raises WireError if it is incomplete."""
        step = self._step
        if step == _PARTITIONS:
            if self._partitions > 0:
                pos = _after_partition(buf, pos, end)
                self._partitions -= 1
            else:
                pos = skip_tags(buf, skip(pos, 4, end), end)  # authorized operations
                self._step = _TOPICS
        elif step == _TOPICS:
            pos = self._topic(buf, pos, end) if self._left > 0 else pos
        elif step == _BROKERS:
            if self._left > 0:
                pos = skip_compact(buf, skip(pos, 4, end), end)  # node id, host
                pos = skip_tags(buf, skip_compact(buf, skip(pos, 4, end), end), end)
                self._left -= 1
            else:
                self._step = _CLUSTER
        elif step == _START:
            self._left, pos = compact_count(buf, skip(pos, 4, end), end, 0)  # throttle time
            self._step = _BROKERS
        else:
            pos = skip(skip_compact(buf, pos, end), 4, end)  # cluster id, controller id
            self._left, pos = compact_count(buf, pos, end, 0)
            self._step = _TOPICS
        if self._step == _TOPICS and self._left <= 0:
            self._step = _DONE
        return pos

    def _topic(self, buf: bytearray, pos: int, end: int) -> int:
        length, at = compact_length(buf, skip(pos, 2, end), end)  # error code
        id_at = at + max(length, 0)
        pos = skip(id_at, _ID_BYTES + 1, end)  # id, is internal
        partitions, pos = compact_count(buf, pos, end, 0)
        topic_id = bytes(buf[id_at : id_at + _ID_BYTES])
        if 0 < length <= _MAX_NAME_BYTES and any(topic_id):
            self.names[topic_id] = buf[at:id_at].decode()
        self._partitions = partitions
        self._left -= 1
        self._step = _PARTITIONS
        return pos


def _after_partition(buf: bytearray, pos: int, end: int) -> int:
    pos = skip(pos, _PARTITION_FIXED_BYTES, end)
    for _ in range(3):  # replicas, in-sync replicas, offline replicas
        count, pos = compact_count(buf, pos, end, 4)
        pos += 4 * max(count, 0)
    return skip_tags(buf, pos, end)


def topic_name(data: Buffer) -> str:
    """Return the name in these bytes. Raises `WireError` if they are not valid UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        at = f"byte {error.start} of {len(data)}"
        raise WireError(f"topic name is not valid UTF-8, at {at}") from error
