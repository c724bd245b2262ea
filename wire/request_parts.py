"""Divides a request by the items that it names: topics and partitions, groups, transactional ids, config resources.

- Where the items stand follows from the table of `wire.replies` and the codec's schema; what they are, from the table
  of `wire.authorization`.
- The items that are not refused keep their bytes and their order. Those of a group that is not refused are divided in
  turn: the group stays in the request, with the topics that are left.
- A refused item is cut to what its refusal repeats: of each array in it the first element stays, and of its partitions
  as many as are answered in one step.
- Any bytes may come: malformed ones raise `WireError`. A large request is divided with pauses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from wire import codec
from wire.authorization import ResourceType
from wire.errors import WireError
from wire.field_steps import FieldSteps
from wire.item_arrays import Item, ItemArray, has_arrays, item_layout
from wire.primitives import (
    Buffer,
    compact_length,
    encode_compact_count,
    encode_count,
    int32_at,
    skip,
    string_length,
)
from wire.schema import FIXED_BYTES, FieldShape, Shape, make_message

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from wire.apis import Api

STEP_ELEMENTS: Final = 512
"""Items, partitions and other elements that are walked between two pauses."""
STEP_ITEMS: Final = 50
"""Partitions of a refused item: one with more is refused in several items."""
ZERO_ID: Final = bytes(16)
"""The id in requests that stands for "no id"."""
L = TypeVar("L")


class Parts(NamedTuple, Generic[L]):
    """A divided request."""

    rest: bytes
    """The body with the items that are not refused."""
    items: int
    """How many items it has, whole or in part."""
    refused: dict[L, list[bytes]]
    """By label: the items that are refused."""
    inside: dict[L, dict[str, list[bytes]]]
    """By label: the topics that are refused in a group that is not."""


def dividing(
    api: Api,
    buf: Buffer,
    body_at: int,
    name_of: Mapping[bytes, str],
    label_of: Callable[[Item, int | None], L | None],
) -> Generator[None, None, Parts[L]]:
    """Return the parts of the request whose body is buf[body_at:]. Pauses after each STEP_ELEMENTS elements.

    `label_of(item, partition)` labels what is refused; None: it is not. None as partition: an item without any.
    `name_of` are names of topics by id. Raises WireError for an API or version whose items are not in one array, and
    for a malformed body.
    """
    layout = item_layout(api)
    walk = _Walk(api, buf, name_of, label_of)
    pos = walk.fields(layout.before, body_at)
    before = bytes(buf[body_at:pos])
    found = _Found[L]()
    pos = yield from walk.array(layout.array, pos, found)
    rest = b"".join((before, walk.kept(found), bytes(buf[pos:])))
    return Parts(rest, len(found.kept), found.refused, found.inside)


def emptied(api: Api, body: Buffer) -> bytes:
    """Return a body without its items, and without values in the fields after them. Raises WireError as `dividing`."""
    layout = item_layout(api)
    blank = codec.encode(make_message(layout.shape, 0))
    walk, blanks = (_Walk[None](api, each, {}, lambda *_: None) for each in (body, blank))
    pos = walk.fields(layout.before, 0)
    after = blanks.fields((*layout.before, layout.array.field), 0)
    return b"".join((body[:pos], walk.counted(0), blank[after:]))


class _Found(Generic[L]):
    """What the walk of an array has found."""

    def __init__(self) -> None:
        self.count = 0
        """Of the array; -1: it is null."""
        self.kept: list[bytes] = []
        self.refused: dict[L, list[bytes]] = {}
        self.inside: dict[L, dict[str, list[bytes]]] = {}


class _Walk(Generic[L]):
    """Walks the items of one body. `counted` encodes the count of an array."""

    def __init__(
        self,
        api: Api,
        buf: Buffer,
        name_of: Mapping[bytes, str],
        label_of: Callable[[Item, int | None], L | None],
    ) -> None:
        self._buf = buf
        self._end = len(buf)
        self._flexible = codec.request_shape(api).is_flexible
        self._name_of = name_of
        self._label_of = label_of
        self._key_type = 0
        self._walked = 0
        self._steps = FieldSteps(buf, len(buf), is_flexible=self._flexible)
        self.counted = encode_compact_count if self._flexible else encode_count

    def fields(self, fields: tuple[FieldShape, ...], pos: int) -> int:
        """Return the offset after these fields."""
        for each in fields:
            at, pos = pos, self._steps.field(each, pos)
            if each.name == "key_type":
                self._key_type = self._buf[at]
        return pos

    def array(self, array: ItemArray, pos: int, found: _Found[L]) -> Generator[None, None, int]:
        """Divide the items of an array into those that are kept and refused; return the offset after them."""
        found.count, pos = self._steps.count(pos)
        for _ in range(found.count):
            if self._is_step():
                yield
            if array.field.shape is not None:
                pos = yield from self._item(array, pos, found)
                continue
            item = self._named(array, self._text(pos), None, 0)
            start, pos = pos, self._steps.value(array.field, pos)
            self._put(found, self._label_of(item, None), bytes(self._buf[start:pos]))
        return pos

    def kept(self, found: _Found[L]) -> bytes:
        """Return the array without what is refused; one that was null stays so."""
        return self.counted(len(found.kept) if found.count >= 0 else -1) + b"".join(found.kept)

    def _item(self, array: ItemArray, pos: int, found: _Found[L]) -> Generator[None, None, int]:
        """Divide one struct of an array; return the offset after it."""
        start, inner_at, inner_end = pos, -1, -1
        name = topic_id = None
        resource = 0
        partitions: dict[L | None, list[tuple[bytes, bytes]]] = {}
        inside = _Found[L]()
        cuts: list[tuple[int, int, bytes]] = []
        for what, field in array.steps:
            at = pos
            if what == "cut":
                less, pos = yield from self._cut(field, pos)
                cuts.append((at, pos, less))
            elif what == "inner":
                item = self._named(array, name, topic_id, resource)
                if array.items is not None:
                    pos = yield from self.array(array.items, pos, inside)
                else:
                    pos = yield from self._partitions(field, item, pos, partitions)
                inner_at, inner_end = at, pos
            else:
                if what == "name":
                    name = self._text(pos)
                pos = self._steps.field(field, pos)
                if what == "id":
                    topic_id = bytes(self._buf[at:pos])
                elif what == "type":
                    resource = self._buf[at]
        pos = self._steps.tags(pos)
        item = self._named(array, name, topic_id, resource)
        if inner_at < 0 or not partitions:
            label = self._label_of(item, None)
            if label is not None:
                ends = (inner_at, inner_end, self.counted(0)) if inner_at >= 0 else (pos, pos, b"")
                self._put(found, label, self._without(start, pos, [*cuts, ends]))
            elif inside.refused:
                kept = inner_at, inner_end, self.kept(inside)
                self._put(found, None, self._without(start, pos, [kept]))
                for each, pieces in inside.refused.items():
                    by_name = found.inside.setdefault(each, {})
                    by_name.setdefault(item.name or "", []).extend(pieces)
            else:
                found.kept.append(bytes(self._buf[start:pos]))
            return pos
        for label, pairs in partitions.items():
            step = len(pairs) if label is None else STEP_ITEMS
            for first in range(0, len(pairs), step):
                some = [
                    less if label is not None else raw for raw, less in pairs[first : first + step]
                ]
                listed = inner_at, inner_end, self.counted(len(some)) + b"".join(some)
                less_of = [listed] if label is None else sorted([*cuts, listed])
                self._put(found, label, self._without(start, pos, less_of))
        return pos

    def _partitions(
        self,
        field: FieldShape,
        item: Item,
        pos: int,
        found: dict[L | None, list[tuple[bytes, bytes]]],
    ) -> Generator[None, None, int]:
        """Find the partitions of an item by label, each as it is and cut; return the offset after them."""
        count, pos = self._steps.count(pos)
        shape = field.shape
        cuts = shape is not None and has_arrays(shape)
        for _ in range(count):
            if self._is_step():
                yield
            at = pos
            less = b""
            if cuts and shape is not None:
                less, pos = yield from self._cut_struct(shape, pos)
            else:
                pos = self._steps.value(field, pos)
            raw = bytes(self._buf[at:pos])
            label = self._label_of(item, int32_at(raw)[0])
            found.setdefault(label, []).append((raw, less if cuts else raw))
        return pos

    def _put(self, found: _Found[L], label: L | None, piece: bytes) -> None:
        if label is None:
            found.kept.append(piece)
        else:
            found.refused.setdefault(label, []).append(piece)

    def _without(self, start: int, stop: int, cuts: list[tuple[int, int, bytes]]) -> bytes:
        """Return buf[start:stop] with other bytes in the place of some."""
        pieces: list[bytes] = []
        for at, after, new in sorted(cuts):
            pieces += bytes(self._buf[start:at]), new
            start = after
        return b"".join((*pieces, bytes(self._buf[start:stop])))

    def _named(
        self, array: ItemArray, name: str | None, topic_id: bytes | None, resource: int
    ) -> Item:
        """Return what an item is about, by the names that policies saw."""
        kind = array.kind(resource, self._key_type)
        if kind is ResourceType.CLUSTER:
            return Item(kind, array.act)
        if topic_id == ZERO_ID and array.has_names:
            topic_id = None
        if topic_id is not None:
            name = self._name_of.get(topic_id)
        return Item(kind, name, topic_id)

    # -- reading ---------------------------------------------------------------------------------

    def _cut(self, field: FieldShape, pos: int) -> Generator[None, None, tuple[bytes, int]]:
        """Return an array of its first element alone, and the offset after the array."""
        count, pos = self._steps.count(pos)
        if size := FIXED_BYTES.get(field.kafka_type):
            stop = skip(pos, max(count, 0) * size, self._end)
            some = min(count, 1)
            return self.counted(some) + bytes(self._buf[pos : pos + max(some, 0) * size]), stop
        first = b""
        for number in range(count):
            if self._is_step():
                yield
            at = pos
            if field.shape is not None and has_arrays(field.shape):
                less, pos = yield from self._cut_struct(field.shape, pos)
            else:
                pos = self._steps.value(field, pos)
                less = bytes(self._buf[at:pos]) if not number else b""
            first = first or less
        return self.counted(min(count, 1)) + first, pos

    def _cut_struct(self, shape: Shape, pos: int) -> Generator[None, None, tuple[bytes, int]]:
        """Return a struct with its arrays cut, and the offset after it."""
        pieces: list[bytes] = []
        for field in shape.untagged:
            if field.is_array:
                less, pos = yield from self._cut(field, pos)
                pieces.append(less)
            else:
                at, pos = pos, self._steps.field(field, pos)
                pieces.append(bytes(self._buf[at:pos]))
        at, pos = pos, self._steps.tags(pos)
        return b"".join((*pieces, bytes(self._buf[at:pos]))), pos

    def _is_step(self) -> bool:
        self._walked += 1
        return not self._walked % STEP_ELEMENTS

    def _text(self, pos: int) -> str | None:
        length, pos = (compact_length if self._flexible else string_length)(
            self._buf, pos, self._end
        )
        if length < 0:
            return None
        try:
            return self._buf[pos : pos + length].decode()
        except UnicodeDecodeError as error:
            raise WireError("the request has a name that is not valid UTF-8") from error
