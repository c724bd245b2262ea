"""Divides a request by the topics and partitions, or by the groups, that it names: the bytes of each stay as they are.

- The APIs whose topics, or groups, are in one array of their own can be divided (`DIVISIBLE`, `GROUPED`).
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
from wire.request_layouts import Part, layout_of
from wire.request_names import ZERO_ID
from wire.topic_refs import TopicRef

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from wire.apis import Api

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

GROUPED: Final = frozenset(
    {
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.FIND_COORDINATOR,
    }
)
"""OffsetFetch from v8 on, FindCoordinator from v4 on; before, they name one group."""
L = TypeVar("L")
WIDTHS: Final = {"p": 4, "i": 16, "e": 4, "o": 4, "y": 1}


class _Element(NamedTuple):
    """One topic of the array: its bytes up to the count of its partitions, each partition, and the bytes after them.

    A topic without an array of partitions is `head` alone, and `partitions` is None.
    """

    topic: TopicRef
    head: bytes
    partitions: list[tuple[int, bytes]] | None
    tail: bytes


STEP_TOPICS: Final = 100
"""Topics or groups that are walked between two pauses."""


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

    def pieces_at(pos: int) -> tuple[dict[L, bytes], int]:
        element, after = walk.element(layout[place], pos)
        return _pieces(element, walk.counted, label_of), after

    return (yield from _dividing(walk, buf, body_at, layout[:place], pieces_at))


def dividing_by_group(
    api: Api, buf: Buffer, body_at: int, label_of: Callable[[str | None], L]
) -> Generator[None, None, dict[L, bytes]]:
    """Return a body for each label, with the groups that have it; pause after each STEP_TOPICS groups.

    Raises WireError for an API or version that cannot be divided.
    """
    layout = flat(layout_of(api) if api.key in GROUPED else None)
    found = (n for n, part in enumerate(layout) if part.kind in "{[" and _names_groups(part))
    place = next(found, None)
    if place is None:
        raise WireError(f"{api.name} v{api.version} cannot be divided by groups")
    walk, groups = PartsWalk(api, buf, {}), layout[place]

    def piece_at(pos: int) -> tuple[dict[L, bytes], int]:
        group, after = walk.group(groups, pos)
        return {label_of(group): bytes(buf[pos:after])}, after

    return (yield from _dividing(walk, buf, body_at, layout[:place], piece_at))


def _dividing(
    walk: PartsWalk,
    buf: Buffer,
    body_at: int,
    before: tuple[Part, ...],
    pieces_at: Callable[[int], tuple[dict[L, bytes], int]],
) -> Generator[None, None, dict[L, bytes]]:
    """Return a body for each label of the array after the fields `before`.

    `pieces_at` returns what each label has of the element at an offset, and the offset after the element.
    """
    count_at = walk.skip_all(before, body_at)
    count, pos = walk.count(count_at)
    found: dict[L, list[bytes]] = {}
    for number in range(1, count + 1):
        if not number % STEP_TOPICS:
            yield
        pieces, pos = pieces_at(pos)
        for label, piece in pieces.items():
            found.setdefault(label, []).append(piece)
    head, tail = bytes(buf[body_at:count_at]), bytes(buf[pos:])
    return {
        label: b"".join((head, walk.counted(len(pieces)), *pieces, tail))
        for label, pieces in found.items()
    }


def flat(layout: tuple[Part, ...] | None) -> tuple[Part, ...]:
    """Return the parts with the keys of coordinators as an array of their own."""
    keys = Part("1"), Part("[", (Part("g"),))
    return tuple(each for part in layout or () for each in (keys if part.kind == "q" else (part,)))


def _names_groups(part: Part) -> bool:
    return any(each.kind == "g" for each in part.parts)


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
