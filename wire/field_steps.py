"""Steps over fields of a body by the codec's schema: the quick way, where `wire.schema` also spends a budget.

The caller pauses between the elements of a large request, or the body is a broker's.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from wire.errors import WireError
from wire.primitives import array_count, compact_count, skip, skip_tags
from wire.schema import FIXED_BYTES, check_field, check_value

if TYPE_CHECKING:
    from wire.primitives import Buffer
    from wire.schema import FieldShape, Shape

_NO_LIMIT: Final = 1 << 40


class FieldSteps:
    """Steps over the fields of one body, which ends at `end`. Raises `WireError` for bytes of another shape."""

    __slots__ = ("_buf", "_count", "_end", "_is_flexible")

    def __init__(self, buf: Buffer, end: int, *, is_flexible: bool) -> None:
        self._buf = buf
        self._end = end
        self._is_flexible = is_flexible
        self._count = compact_count if is_flexible else array_count

    def count(self, pos: int) -> tuple[int, int]:
        """Return an array's count (-1: null) and the offset of its first element."""
        return self._count(self._buf, pos, self._end)

    def field(self, field: FieldShape, pos: int) -> int:
        """Return the offset after a field."""
        if not field.is_array or field.shape is None:
            return check_field(field, self._is_flexible, self._buf, pos, self._end, _NO_LIMIT)[0]
        count, pos = self.count(pos)
        if count < 0 and not field.is_nullable:
            raise WireError(f"array {field.name} is null, expected 0 or more elements")
        for _ in range(count):
            pos = self.struct(field.shape, pos)
        return pos

    def value(self, field: FieldShape, pos: int) -> int:
        """Return the offset after one element of an array."""
        if field.shape is not None:
            return self.struct(field.shape, pos)
        return check_value(field, self._is_flexible, self._buf, pos, self._end, _NO_LIMIT)[0]

    def struct(self, shape: Shape, pos: int) -> int:
        """Return the offset after a struct."""
        for each in _strides(shape):
            pos = skip(pos, each, self._end) if isinstance(each, int) else self.field(each, pos)
        return self.tags(pos)

    def tags(self, pos: int) -> int:
        """Return the offset after the tags of a struct, if it has any."""
        return skip_tags(self._buf, pos, self._end) if self._is_flexible else pos


@cache
def _strides(shape: Shape) -> tuple[int | FieldShape, ...]:
    """Return the fields of a struct; those of fixed sizes that follow each other are joined to their size."""
    found: list[int | FieldShape] = []
    for each in shape.untagged:
        size = 0 if each.is_array else FIXED_BYTES.get(each.kafka_type, 0)
        last = found[-1] if found else None
        if size and isinstance(last, int):
            found[-1] = last + size
        else:
            found.append(size or each)
    return tuple(found)
