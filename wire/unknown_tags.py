"""Remove tagged fields that the codec does not know from a body, so that it can be decoded.

A newer client may send tags of its own. Kafka keeps them aside; the codec's decoder refuses them.

Rules:
- The body has passed `schema.check` with the same shape, so every size in it is valid.
- The shape is flexible, and so is every struct in it: no other has tags.
- Known fields stay byte for byte, except the sizes around a field that was removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wire.primitives import compact_count
from wire.schema import check_value
from wire.varint import encode_uvarint, uvarint

if TYPE_CHECKING:
    from wire.primitives import Buffer
    from wire.schema import FieldShape, Shape

_NO_BUDGET_LIMIT: Final = 1 << 40
"""`schema.check` has already spent the budget for this walk."""
_NULL_STRUCT: Final = 0xFF


def without_unknown_tags(shape: Shape, body: Buffer) -> bytes:
    """Return the body of this shape without the tagged fields that the shape does not have."""
    out = bytearray()
    _copy_struct(shape, body, 0, len(body), out)
    return bytes(out)


def _copy_struct(shape: Shape, buf: Buffer, pos: int, end: int, out: bytearray) -> int:
    for field in shape.untagged:
        pos = _copy_field(field, buf, pos, end, out)
    count, pos = uvarint(buf, pos, end)
    kept = bytearray()
    kept_count = 0
    for _ in range(count):
        tag, pos = uvarint(buf, pos, end)
        size_bytes, pos = uvarint(buf, pos, end)
        known = shape.tagged.get(tag)
        if known is not None:
            content = bytearray()
            _copy_field(known, buf, pos, pos + size_bytes, content)
            kept += encode_uvarint(tag) + encode_uvarint(len(content)) + content
            kept_count += 1
        pos += size_bytes
    out += encode_uvarint(kept_count) + kept
    return pos


def _copy_field(field: FieldShape, buf: Buffer, pos: int, end: int, out: bytearray) -> int:
    if not field.is_array:
        if field.shape is not None and field.is_nullable:
            out.append(buf[pos])
            pos += 1
            if buf[pos - 1] == _NULL_STRUCT:
                return pos
        return _copy_value(field, buf, pos, end, out)
    count, after = compact_count(buf, pos, end)
    out += buf[pos:after]
    pos = after
    for _ in range(count):
        pos = _copy_value(field, buf, pos, end, out)
    return pos


def _copy_value(field: FieldShape, buf: Buffer, pos: int, end: int, out: bytearray) -> int:
    if field.shape is not None:
        return _copy_struct(field.shape, buf, pos, end, out)
    after, _ = check_value(field, True, buf, pos, end, _NO_BUDGET_LIMIT)
    out += buf[pos:after]
    return after
