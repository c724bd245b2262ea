"""Divides a request by the topics and partitions that it names: the bytes of each stay as they are.

- The APIs whose topics are in one array of their own can be divided (`DIVISIBLE`).
- The body was read by `read_names` before, so it is known to be whole and valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from wire.api_keys import ApiKey
from wire.errors import WireError
from wire.primitives import (
    Buffer,
    array_count,
    compact_count,
    compact_length,
    encode_compact_count,
    encode_count,
    int32_at,
    skip_bytes,
    skip_compact,
    skip_string,
    skip_tags,
    string_length,
)
from wire.request_layouts import layout_of
from wire.request_names import ZERO_ID
from wire.topic_refs import TopicRef

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from wire.apis import Api
    from wire.request_layouts import Part

DIVISIBLE: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.METADATA,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.OFFSET_COMMIT,
    }
)

L = TypeVar("L")
WIDTHS: Final = {"p": 4, "i": 16, "e": 4}


class _Element(NamedTuple):
    """One topic of the array: its bytes up to the count of its partitions, each partition, and the bytes after them.

    A topic without an array of partitions is `head` alone, and `partitions` is None.
    """

    topic: TopicRef
    head: bytes
    partitions: list[tuple[int, bytes]] | None
    tail: bytes


STEP_TOPICS: Final = 100
"""Topics that `dividing` walks between two pauses."""


def divide(
    api: Api,
    buf: Buffer,
    body_at: int,
    name_of: Mapping[bytes, str],
    label_of: Callable[[TopicRef, int | None], L],
) -> dict[L, bytes]:
    """Do as `dividing`, in one step."""
    work = dividing(api, buf, body_at, name_of, label_of)
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: dict[L, bytes] = end.value
            return found


def dividing(
    api: Api,
    buf: Buffer,
    body_at: int,
    name_of: Mapping[bytes, str],
    label_of: Callable[[TopicRef, int | None], L],
) -> Generator[None, None, dict[L, bytes]]:
    """Return a body for each label, with the topics and partitions that have it; pause after each STEP_TOPICS.

    `label_of(topic, partition)` labels a partition; None as partition: a topic without partitions. Raises WireError
    for an API or version that cannot be divided.
    """
    layout = layout_of(api)
    if api.key not in DIVISIBLE or layout is None:
        raise WireError(f"{api.name} v{api.version} cannot be divided by topics")
    walk = PartsWalk(api, buf, name_of)
    place = next(n for n, part in enumerate(layout) if part.names_topics)
    count_at = walk.skip_all(layout[:place], body_at)
    count, pos = walk.count(count_at)
    found: dict[L, list[bytes]] = {}
    for number in range(1, count + 1):
        if not number % STEP_TOPICS:
            yield
        element, pos = walk.element(layout[place], pos)
        for label, piece in _pieces(element, walk.counted, label_of).items():
            found.setdefault(label, []).append(piece)
    before, after = bytes(buf[body_at:count_at]), bytes(buf[pos:])
    return {
        label: b"".join((before, walk.counted(len(pieces)), *pieces, after))
        for label, pieces in found.items()
    }


def _pieces(
    element: _Element,
    counted: Callable[[int], bytes],
    label_of: Callable[[TopicRef, int | None], L],
) -> dict[L, bytes]:
    topic, head, partitions, tail = element
    if not partitions:
        none = counted(0) if partitions is not None else b""
        return {label_of(topic, None): head + none + tail}
    found: dict[L, list[bytes]] = {}
    for index, piece in partitions:
        found.setdefault(label_of(topic, index), []).append(piece)
    return {
        label: b"".join((head, counted(len(pieces)), *pieces, tail))
        for label, pieces in found.items()
    }


class PartsWalk:
    """Walks one body by its layout. `counted` encodes the count of an array."""

    def __init__(self, api: Api, buf: Buffer, name_of: Mapping[bytes, str]) -> None:
        self._buf = buf
        self._end = len(buf)
        self._flexible = api.flexible
        self._name_of = name_of
        self.counted = encode_compact_count if api.flexible else encode_count

    def count(self, pos: int) -> tuple[int, int]:
        """Return an array's count (-1: null) and the offset of its first element."""
        return (compact_count if self._flexible else array_count)(self._buf, pos, self._end)

    def element(self, part: Part, pos: int) -> tuple[_Element, int]:
        """Return one element of the array of topics, and the offset after it."""
        start = pos
        name, topic_id = None, None
        partitions: list[tuple[int, bytes]] | None = None
        head_end = tail_at = 0
        for field in part.parts:
            if field.kind == "t":
                name, pos = self._text(pos)
            elif field.kind == "i":
                topic_id, pos = bytes(self._buf[pos : pos + 16]), pos + 16
            elif field.kind in "{[" and field.parts[0].kind == "p":
                head_end, partitions = pos, []
                count, pos = self.count(pos)
                for _ in range(count):
                    after = self._item(field, pos)
                    index = int32_at(self._buf, pos)[0]
                    partitions.append((index, bytes(self._buf[pos:after])))
                    pos = after
                tail_at = pos
            else:
                pos = self._skip(field, pos)
        if part.kind == "{" and self._flexible:
            pos = skip_tags(self._buf, pos, self._end)
        if topic_id == ZERO_ID and any(field.kind == "t" for field in part.parts):
            topic_id = None
        if topic_id is not None:
            name = self._name_of.get(topic_id)
        topic = TopicRef(name, topic_id, tuple(index for index, _ in partitions or ()))
        if partitions is None:
            return _Element(topic, bytes(self._buf[start:pos]), None, b""), pos
        head, tail = bytes(self._buf[start:head_end]), bytes(self._buf[tail_at:pos])
        return _Element(topic, head, partitions, tail), pos

    def group(self, part: Part, pos: int) -> tuple[str | None, int]:
        """Return the name in one element of the array of groups, and the offset after the element."""
        name = None
        for field in part.parts:
            if field.kind == "g":
                name, pos = self._text(pos)
            else:
                pos = self._skip(field, pos)
        if part.kind == "{" and self._flexible:
            pos = skip_tags(self._buf, pos, self._end)
        return name, pos

    def skip_all(self, parts: tuple[Part, ...], pos: int) -> int:
        """Return the offset after these fields."""
        for part in parts:
            pos = self._skip(part, pos)
        return pos

    def _skip(self, part: Part, pos: int) -> int:
        kind = part.kind
        if kind in "{[":
            count, pos = self.count(pos)
            for _ in range(count):
                pos = self._item(part, pos)
            return pos
        if kind in WIDTHS or kind.isdigit():
            return pos + (WIDTHS.get(kind) or int(kind))
        if self._flexible:
            return skip_compact(self._buf, pos, self._end)
        return (skip_bytes if kind == "b" else skip_string)(self._buf, pos, self._end)

    def _item(self, part: Part, pos: int) -> int:
        pos = self.skip_all(part.parts, pos)
        if part.kind == "{" and self._flexible:
            return skip_tags(self._buf, pos, self._end)
        return pos

    def _text(self, pos: int) -> tuple[str | None, int]:
        length, pos = (compact_length if self._flexible else string_length)(
            self._buf, pos, self._end
        )
        if length < 0:
            return None, pos
        return self._buf[pos : pos + length].decode(), pos + length
