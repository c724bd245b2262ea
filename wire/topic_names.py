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
PARTITION_FIXED_BYTES: Final = 2 + 4 + 4 + 4
"""Error, index, leader and leader epoch of a partition. Three arrays of replicas and tags follow."""
_LOOKAHEAD: Final = 64
"""How many partitions are compared with the one before them in one go."""
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
                pos = self._after_partitions(buf, pos, end)
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

    def _after_partitions(self, buf: bytearray, pos: int, end: int) -> int:
        """Step over a partition, and over those that follow it and have its shape: their size bytes are the same."""
        first = pos
        in_sync_at, offline_at, pos, shape = partition_shape(buf, pos, end)
        if shape < 0:
            pos = skip_tags(buf, pos, end)
        self._partitions -= 1
        stride = pos - first
        run = min(self._partitions, (end - pos) // stride, _LOOKAHEAD)
        stop = pos + run * stride
        places = (first + PARTITION_FIXED_BYTES, in_sync_at, offline_at, pos - 1)
        if (
            shape >= 0
            and run
            and all(buf[at:stop:stride].count(buf[at]) == run + 1 for at in places)
        ):
            self._partitions -= run
            return stop
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


def partition_shape(buf: Buffer, pos: int, end: int) -> tuple[int, int, int, int]:
    """Return the shape of the partition at `pos`: (offset of its in-sync replicas, offset of its offline replicas,
    offset after it, a number for its shape).

    If the number is -1, the third value is the offset of its tags.
    """
    at = in_sync_at = offline_at = skip(pos, PARTITION_FIXED_BYTES, end)
    if at < end and (replicas := buf[at]) < 0x80:  # short arrays, without a call
        in_sync_at = at + (replicas * 4 - 3 if replicas else 1)
        if in_sync_at < end and (in_sync := buf[in_sync_at]) < 0x80:
            offline_at = in_sync_at + (in_sync * 4 - 3 if in_sync else 1)
            if offline_at < end and (offline := buf[offline_at]) < 0x80:
                tags_at = offline_at + (offline * 4 - 3 if offline else 1)
                if tags_at < end and not buf[tags_at]:
                    shape = replicas << 16 | in_sync << 8 | offline
                    return in_sync_at, offline_at, tags_at + 1, shape
    for _ in range(3):  # replicas, in-sync replicas, offline replicas
        size, at = compact_count(buf, at, end, 4)
        if size > 0:
            at += size * 4
    return in_sync_at, offline_at, at, -1


def topic_name(data: Buffer) -> str:
    """Return the name in these bytes. Raises `WireError` if they are not valid UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        at = f"byte {error.start} of {len(data)}"
        raise WireError(f"topic name is not valid UTF-8, at {at}") from error
