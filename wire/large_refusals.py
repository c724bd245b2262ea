"""Error replies to requests of any size, made in steps: the caller lets others have their turns at each pause.

A large request is split by its items: topics and partitions, groups, config resources, ACLs or transactional ids. Each
part is refused by itself (`wire.replies`), and the items of all replies are joined into one. Arrays inside of an item
other than its partitions are left out, because no reply repeats them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wire.errors import BudgetError, WireError
from wire.primitives import Buffer, encode_compact_count, encode_count, skip_tags
from wire.replies import error_body, error_items
from wire.request_layouts import Part, layout_of, names_anything
from wire.request_parts import WIDTHS, PartsWalk, flat

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from wire.apis import Api

STEP_ITEMS: Final = 50
"""Topics and partitions, or other items, of a large request that are answered in one step."""
STEP_ELEMENTS: Final = 512
"""Array elements of a large request that are walked between two pauses."""
_ITEMS: Final = "tigrad"
"""Kinds of fields that make an array one of items: topics, groups, config resources, ACLs, transactional ids."""
_TEXT: Final = Part("s")


def refusing(
    api: Api,
    request_body: bytes,
    code: int,
    message: str | None = None,
    brokers: Iterable[tuple[int, str, int]] = (),
) -> Generator[None, None, bytes]:
    """Return `error_body` of a request of any size. Pauses after each STEP_ITEMS items of a large one.

    Raises `WireError` as `error_body`; for a large request also if its items are not in one array.
    """
    named = tuple(brokers)
    try:
        return error_body(api, request_body, code, message, named)
    except BudgetError:
        pass
    base = b""
    items: list[bytes] = []
    total = at = width = 0
    for part in splitting(api, request_body, 0, STEP_ITEMS):
        yield
        if part is None:
            continue
        reply = error_body(api, part, code, message, named)
        if not base:
            base = reply
            continue
        if reply == base:  # it names no item in this version
            return base
        if not width:
            at = next(
                n for n, (one, two) in enumerate(zip(base, reply, strict=False)) if one != two
            )
            width = 1 if api.flexible else 4
            at -= width - 1
        total += reply[at + width - 1] - api.flexible  # an array has STEP_ITEMS at most: one byte
        items.append(reply[at + width : len(reply) - (len(base) - at - width)])
    counted = (encode_compact_count if api.flexible else encode_count)(total)
    return b"".join((base[:at], counted, *items, base[at + width :])) if items else base


def refusing_items(
    api: Api, request_body: bytes, code: int, message: str | None
) -> Generator[None, None, list[bytes]]:
    """Return `error_items` of a request of any size. Pauses as `refusing`."""
    try:
        return error_items(api, request_body, code, message)
    except BudgetError:
        pass
    items: list[bytes] = []
    for part in splitting(api, request_body, 0, STEP_ITEMS):
        yield
        if part is not None:
            items += error_items(api, part, code, message)
    return items


def splitting(
    api: Api, buf: Buffer, body_at: int, max_items: int
) -> Generator[bytes | None, None, None]:
    """Yield the body without an item, and then bodies with `max_items` items or partitions each, until all are there.

    Between them None is yielded as a pause. The fields after the items are empty. Raises WireError if the body is
    malformed, and for an API or version whose items are not in one array of their own.
    """
    layout = flat(layout_of(api) if names_anything(api.key) else None)
    place = next((n for n, part in enumerate(layout) if _holds_items(part)), None)
    if place is None:
        raise WireError(f"{api.name} v{api.version} cannot be split by its items")
    walk = _ItemsWalk(api, buf, {})
    count_at = walk.skip_all(layout[:place], body_at)
    count, pos = walk.count(count_at)
    before = bytes(buf[body_at:count_at])
    after = b"".join(_blank(part, api) for part in layout[place + 1 :]) + b"\0" * api.flexible
    yield before + walk.counted(0) + after
    pieces: list[bytes] = []
    items = 0
    for _ in range(count):
        head, partitions, tail, pos = yield from walk.item(layout[place], pos)
        left = partitions or [b""]
        while left:
            taken, left = left[: max_items - items], left[max_items - items :]
            counted = b"" if partitions is None else walk.counted(len(taken) if partitions else 0)
            pieces.append(b"".join((head, counted, *taken, tail)))
            items += len(taken)
            if items == max_items:
                yield b"".join((before, walk.counted(len(pieces)), *pieces, after))
                pieces, items = [], 0
    if pieces:
        yield b"".join((before, walk.counted(len(pieces)), *pieces, after))


class _ItemsWalk(PartsWalk):
    """Walks the items of a body that may be malformed, with a pause after each STEP_ELEMENTS elements."""

    def __init__(self, api: Api, buf: Buffer, name_of: Mapping[bytes, str]) -> None:
        super().__init__(api, buf, name_of)
        self._version = api.version
        self._steps = 0

    def item(
        self, part: Part, pos: int
    ) -> Generator[None, None, tuple[bytes, list[bytes] | None, bytes, int]]:
        """Return the bytes before an item's partitions, the partitions, the bytes after them, and the offset after it.

        The partitions are None if it has no array of them.
        """
        head, pieces = b"", list[bytes]()
        partitions: list[bytes] | None = None
        for field in part.parts:
            if field.kind in "{[" and field.parts[0].kind == "p":
                head, pieces, partitions = b"".join(pieces), [], []
                count, pos = self.count(pos)
                for _ in range(count):
                    piece, pos = yield from self._lean(field, pos)
                    partitions.append(piece)
            else:
                piece, pos = yield from self._field(field, pos)
                pieces.append(piece)
        piece, pos = yield from self._end_of(part, pos)
        tail = b"".join((*pieces, piece))
        return (tail, None, b"", pos) if partitions is None else (head, partitions, tail, pos)

    def _lean(self, part: Part, pos: int) -> Generator[None, None, tuple[bytes, int]]:
        """Return an element with its arrays left empty, and the offset after it."""
        pieces: list[bytes] = []
        for field in part.parts:
            piece, pos = yield from self._field(field, pos)
            pieces.append(piece)
        piece, pos = yield from self._end_of(part, pos)
        return b"".join((*pieces, piece)), pos

    def _field(self, field: Part, pos: int) -> Generator[None, None, tuple[bytes, int]]:
        if field.kind in "{[":
            count, pos = self.count(pos)
            for _ in range(count):
                _, pos = yield from self._lean(field, pos)
            return self.counted(0), pos
        start, pos = pos, self._skip(field, pos)
        return bytes(self._buf[start:pos]), pos

    def _end_of(self, part: Part, pos: int) -> Generator[None, None, tuple[bytes, int]]:
        """Step over the tags of an element, and count it."""
        tags = b""
        if part.kind == "{" and self._flexible:
            tags, pos = b"\0", skip_tags(self._buf, pos, self._end)
        if pos > self._end:
            raise WireError(f"an item ends at offset {pos}, expected {self._end} at most")
        self._steps += 1
        if not self._steps % STEP_ELEMENTS:
            yield
        return tags, pos

    def _skip(self, part: Part, pos: int) -> int:
        if part.kind in "ra":  # a type, a name, and an ACL's pattern type
            pos = super()._skip(_TEXT, pos + 1)
            return pos + (part.kind == "a" and self._version >= 1)
        return super()._skip(part, pos)


def _holds_items(part: Part) -> bool:
    return part.kind in "{[" and any(each.kind in _ITEMS for each in part.parts)


def _blank(part: Part, api: Api) -> bytes:
    """Return an empty value of this field."""
    if part.kind.isdigit() or part.kind in WIDTHS:
        return bytes(WIDTHS.get(part.kind) or int(part.kind))
    if part.kind == "(":
        return b"\xff"
    if api.flexible:
        return b"\1"
    return bytes(4) if part.kind in "{[b" else bytes(2)
