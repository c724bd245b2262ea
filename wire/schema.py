"""The shape of a message: what the codec's generated classes say about their bytes.

- The codec's decoder trusts an array's count before it looks for the elements; a count of two thousand million ends
  the whole process. So `check` walks a body first, by the same schema and with Sluice's readers: every size is inside
  the body, every element and tagged field costs budget, and only nullable arrays are null (the decoder would return
  None).
- A shape is read from a class once (dataclass fields: types, metadata `kafka_type` and `tag`).
- `make_message` makes a message that holds only an error code, as an error reply needs it. The other fields have the
  values that Kafka's generated classes have before a setter is called, and Kafka's "unknown", -1, where
  `getErrorResponse` sets it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Final, cast, get_args, get_origin

from wire.errors import ErrorCode, WireError
from wire.primitives import (
    Buffer,
    array_count,
    check_tag_count,
    compact_count,
    skip,
    skip_bytes,
    skip_compact,
    skip_string,
    spend,
)
from wire.varint import uvarint

if TYPE_CHECKING:
    from collections.abc import Mapping

FIXED_BYTES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "bool": 1,
        "int8": 1,
        "uint8": 1,
        "int16": 2,
        "uint16": 2,
        "error_code": 2,
        "int32": 4,
        "uint32": 4,
        "timedelta_i32": 4,
        "int64": 8,
        "uint64": 8,
        "float64": 8,
        "timedelta_i64": 8,
        "datetime_i64": 8,
        "uuid": 16,
    }
)

_ZERO_VALUES: Final[Mapping[str, object]] = MappingProxyType(
    {
        "bool": False,
        "string": "",
        "bytes": b"",
        "records": b"",
        "float64": 0.0,
        "timedelta_i32": timedelta(0),
        "timedelta_i64": timedelta(0),
        "datetime_i64": datetime.fromtimestamp(0, UTC),
        "uuid": None,  # how the codec spells the zero id
    }
)

_ERROR_FIELDS: Final = frozenset({"error_code", "partition_error_code"})

_MESSAGE_FIELD: Final = "error_message"

_UNKNOWN_FIELDS: Final = frozenset(
    {
        "base_offset",
        "committed_offset",
        "generation_id",
        "high_watermark",
        "low_watermark",
        "node_id",
        "port",
        "producer_epoch",
        "producer_id",
    }
)
"""Fields without a default in the schema that are -1 in an error response of Kafka."""

_EMPTY_TEXTS: Final = frozenset({"metadata"})
"""Of a committed offset. Kafka sends it empty in an error response, and not null as it may be."""


@dataclass(
    frozen=True, slots=True, eq=False
)  # one object per field of a class: compared by identity
class FieldShape:
    """One field: of `kafka_type`, or a struct of `shape`; a list of these if `is_array`."""

    name: str
    kafka_type: str
    shape: Shape | None
    is_array: bool
    is_nullable: bool
    has_default: bool
    python_type: type


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A struct: its untagged fields in order, its tagged fields by tag."""

    type_: type
    is_flexible: bool
    untagged: tuple[FieldShape, ...]
    tagged: Mapping[int, FieldShape]

    def field(self, name: str) -> FieldShape | None:
        """Return the field of that name; None if there is none."""
        for each in (*self.untagged, *self.tagged.values()):
            if each.name == name:
                return each
        return None

    def item(self, array: str) -> Shape:
        """Return the shape of each item of this array of structs. Raises LookupError if there is no such array."""
        return {each.name: each.shape for each in self.untagged if each.shape is not None}[array]


@cache  # one entry for each class of the codec that is used
def shape_of(type_: type) -> Shape:
    """Return the shape of one of the codec's classes.

    Raises `TypeError` for a field type that the codec does not have.
    """
    untagged: list[FieldShape] = []
    tagged: dict[int, FieldShape] = {}
    for each in fields(type_):
        if "tag" in each.metadata:
            tagged[int(each.metadata["tag"])] = _field_shape(each)
        else:
            untagged.append(_field_shape(each))
    is_flexible = bool(getattr(type_, "__flexible__", False))
    return Shape(type_, is_flexible, tuple(untagged), MappingProxyType(tagged))


def _field_shape(field: Field[object]) -> FieldShape:
    python_type, is_nullable = _without_none(field.type)
    is_array = get_origin(python_type) is tuple
    if is_array:
        python_type, _ = _without_none(get_args(python_type)[0])
    if not isinstance(python_type, type):
        raise TypeError(
            f"field {field.name} has the type {python_type}, expected a class of the codec"
        )
    return FieldShape(
        name=field.name,
        kafka_type=str(field.metadata.get("kafka_type", "")),
        shape=shape_of(python_type) if is_dataclass(python_type) else None,
        is_array=is_array,
        is_nullable=is_nullable,
        has_default=field.default is not MISSING,
        python_type=python_type,
    )


def _without_none(annotation: object) -> tuple[object, bool]:
    """Return (X, True) for `X | None`, and (annotation, False) for any other annotation."""
    options = get_args(annotation)
    if NoneType not in options:
        return annotation, False
    return next(each for each in options if each is not NoneType), True


# --- checking ----------------------------------------------------------------------------------


def check(shape: Shape, buf: Buffer, pos: int, end: int, budget: int) -> tuple[int, int]:
    """Return the offset after a struct, and what is left of `budget`.

    Raises `WireError` if the bytes do not have this shape, and `BudgetError` if the budget is too small.
    """
    for field in shape.untagged:
        pos, budget = check_field(field, shape.is_flexible, buf, pos, end, budget)
    if not shape.is_flexible:
        return pos, budget
    count, pos = uvarint(buf, pos, end)
    budget = spend(budget, check_tag_count(count))
    last_tag = -1
    for _ in range(count):
        tag, pos = uvarint(buf, pos, end)
        if tag <= last_tag:
            raise WireError(f"tag {tag} follows tag {last_tag}, expected a larger one")
        last_tag = tag
        size_bytes, pos = uvarint(buf, pos, end)
        stop = skip(pos, size_bytes, end)
        known = shape.tagged.get(tag)
        if known is not None:
            pos, budget = check_field(known, True, buf, pos, stop, budget)
            if pos != stop:
                raise WireError(
                    f"tagged field {known.name} is {stop - pos} bytes shorter than its size"
                )
        pos = stop
    return pos, budget


def check_field(
    field: FieldShape,
    is_flexible: bool,  # noqa: FBT001 - the struct's, handed down
    buf: Buffer,
    pos: int,
    end: int,
    budget: int,
) -> tuple[int, int]:
    """Return the offset after a field, and what is left of `budget`. Raises as `check`."""
    if not field.is_array:
        if field.shape is not None and field.is_nullable:
            marker_at, pos = pos, skip(pos, 1, end)
            if buf[marker_at] == 0xFF:
                return pos, budget
        return check_value(field, is_flexible, buf, pos, end, budget)
    count, pos = (compact_count if is_flexible else array_count)(buf, pos, end)
    if count < 0 and not field.is_nullable:
        raise WireError(f"array {field.name} is null, expected 0 or more elements")
    budget = spend(budget, count)
    if size_bytes := FIXED_BYTES.get(field.kafka_type):
        return skip(pos, max(count, 0) * size_bytes, end), budget
    for _ in range(count):
        pos, budget = check_value(field, is_flexible, buf, pos, end, budget)
    return pos, budget


def check_value(
    field: FieldShape,
    is_flexible: bool,  # noqa: FBT001 - the struct's, handed down
    buf: Buffer,
    pos: int,
    end: int,
    budget: int,
) -> tuple[int, int]:
    """Return the offset after one value of a field (an element if it is an array), and what is left of `budget`."""
    if field.shape is not None:
        return check(field.shape, buf, pos, end, budget)
    if size_bytes := FIXED_BYTES.get(field.kafka_type):
        return skip(pos, size_bytes, end), budget
    if is_flexible:
        return skip_compact(buf, pos, end), budget
    if field.kafka_type == "string":
        return skip_string(buf, pos, end), budget
    return skip_bytes(buf, pos, end), budget


# --- making ------------------------------------------------------------------------------------


def make_message(
    shape: Shape,
    code: int,
    values: Mapping[str, object] | None = None,
    error_message: str | None = None,
) -> object:
    """Return a message with `code` in every error code field, and the given `values`; other fields hold zero values.

    `error_message` goes into the text field beside the code, in the versions that have one (Kafka: `error_message`).
    Raises `WireError` if the code is none of Kafka's.
    """
    values = dict(values or {})
    for field in (*shape.untagged, *shape.tagged.values()):
        if field.name in values:
            continue
        if field.name in _ERROR_FIELDS:
            values[field.name] = _error_value(field, code)
        elif field.name == _MESSAGE_FIELD and error_message is not None:
            values[field.name] = error_message
        elif not field.has_default:
            values[field.name] = _zero_value(field)
    return cast("object", shape.type_(**values))


def _error_value(field: FieldShape, code: int) -> object:
    for errors in (field.python_type, ErrorCode):  # the codec may know fewer: an older Kafka's
        with suppress(ValueError):
            return errors(code)
    raise WireError(f"error code {code} is none of Kafka's")


def _zero_value(field: FieldShape) -> object:
    if field.is_array:
        return ()
    if field.is_nullable and field.kafka_type != "records" and field.name not in _EMPTY_TEXTS:
        return None
    if field.shape is not None:
        return make_message(field.shape, 0)
    if field.name in _UNKNOWN_FIELDS and field.kafka_type.startswith("int"):
        return -1
    return _ZERO_VALUES.get(field.kafka_type, 0)
