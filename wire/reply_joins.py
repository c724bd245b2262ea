"""Adds items to a reply: those that Sluice has refused, before those of the broker.

- They come first, so that the rest of a reply can stream. Clients read the items in any order.
- A topic of which the broker got some partitions then occurs twice, which clients accept. Topics that were refused in
  a group are added to the group's own.
- A reply that refuses the request as a whole, or a group as a whole, by a code of its own gets no item there: Kafka's
  has none.
- Where the array begins follows from the codec's schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from wire import codec
from wire.api_keys import ApiKey
from wire.errors import WireError
from wire.field_steps import FieldSteps
from wire.primitives import (
    Buffer,
    array_count,
    compact_count,
    compact_length,
    encode_compact_count,
    encode_count,
    int16_at,
    string_length,
)
from wire.replies import echo_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wire.apis import Api
    from wire.schema import Shape

_CODE: Final = "error_code"


class Additions(NamedTuple):
    """Encoded items of a reply."""

    items: bytes = b""
    number: int = 0
    inside: Mapping[str, tuple[bytes, int]] = {}
    """Topics by the group to which they are added, and their number."""

    @property
    def size_bytes(self) -> int:
        """Return the size of all of them."""
        return len(self.items) + sum(len(topics) for topics, _ in self.inside.values())


def add_items(
    api: Api, buf: Buffer, start: int, end: int, added: Additions, *, beside_code: bool = False
) -> bytes:
    """Return the body in `buf[start:end]` with these items; `beside_code`: also if it has a code as a whole.

    Without `inside`, the part of the body up to the array's count is enough, unless a code follows the array. Raises
    WireError if it is not there.
    """
    echo = echo_of(api)
    if echo is None:
        raise WireError(f"{api.name} v{api.version} has no array of items to add to")
    shape = codec.response_shape(api)
    reader = _Reader(buf, end, is_flexible=shape.is_flexible)
    at, code = reader.before(shape, echo.answered, start)
    count, pos = reader.count(at)
    beside_code = beside_code or api.key == ApiKey.METADATA  # its code is not about topics
    if not beside_code and reader.is_refused(shape, echo.answered, at, code):
        return bytes(buf[start:end])
    counted = encode_compact_count if shape.is_flexible else encode_count
    pieces = [bytes(buf[start:at]), counted(max(count, 0) + added.number), added.items]
    if added.inside and echo.inner is not None:
        item_shape, left = shape.item(echo.answered), dict(added.inside)
        for _ in range(count):
            item_at = pos
            inner_at, item_code = reader.before(item_shape, echo.inner.answered, pos)
            topics = left.pop(reader.text(item_at), None)
            inner_count, pos = reader.count(inner_at)
            if topics is not None and not reader.is_refused(
                item_shape, echo.inner.answered, inner_at, item_code
            ):
                items, number = topics
                pieces += bytes(buf[item_at:inner_at]), counted(max(inner_count, 0) + number), items
                item_at = pos
            pos = reader.after(item_shape, echo.inner.answered, inner_at)
            pieces.append(bytes(buf[item_at:pos]))
    pieces.append(bytes(buf[pos:end]))
    return b"".join(pieces)


class _Reader:
    """Reads the fields of one body."""

    def __init__(self, buf: Buffer, end: int, *, is_flexible: bool) -> None:
        self._buf = buf
        self._end = end
        self._is_flexible = is_flexible
        self._steps = FieldSteps(buf, end, is_flexible=is_flexible)

    def count(self, pos: int) -> tuple[int, int]:
        """Return an array's count (-1: null) and the offset of its first element."""
        # Elements may still be missing: the count is not compared with the bytes that are here.
        return (compact_count if self._is_flexible else array_count)(self._buf, pos, self._end, 0)

    def before(self, shape: Shape, array: str, pos: int) -> tuple[int, int]:
        """Return the offset of this array in a struct, and the code before it; 0 without one."""
        code = 0
        for field in shape.untagged:
            if field.name == array:
                return pos, code
            if field.name == _CODE:
                code = int16_at(self._buf, pos)[0] if pos + 2 <= self._end else 0
            pos = self._steps.field(field, pos)
        raise WireError(f"{shape.type_.__name__} has no field {array}")

    def is_refused(self, shape: Shape, array: str, pos: int, code: int) -> bool:
        """Return whether the struct with this array at `pos` has a code of its own, before the array or after it."""
        names = [field.name for field in shape.untagged]
        if _CODE not in names or names.index(_CODE) < names.index(array):
            return code != 0
        for field in shape.untagged[names.index(array) : names.index(_CODE)]:
            pos = self._steps.field(field, pos)
        return self._code(pos) != 0

    def after(self, shape: Shape, array: str, pos: int) -> int:
        """Return the offset after the struct with this array at `pos`."""
        names = [field.name for field in shape.untagged]
        for field in shape.untagged[names.index(array) :]:
            pos = self._steps.field(field, pos)
        return self._steps.tags(pos)

    def text(self, pos: int) -> str:
        """Return the string at `pos`."""
        read = compact_length if self._is_flexible else string_length
        length, pos = read(self._buf, pos, self._end)
        return self._buf[pos : pos + max(length, 0)].decode(errors="replace")

    def _code(self, pos: int) -> int:
        if pos + 2 > self._end:
            raise WireError(f"an error code is cut off at offset {self._end}")
        code: int = int16_at(self._buf, pos)[0]
        return code
