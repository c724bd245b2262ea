"""The bodies of requests and replies as typed messages. Authors of policies read of them in `sluice.messages`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, TypeVar, cast
from uuid import UUID

from policies.type_names import nearest
from wire import codec
from wire.codec import Message as Message  # noqa: PLC0414, TC001 - re-exported: used with the functions below
from wire.codec import Struct as Struct  # noqa: PLC0414, TC001 - as above
from wire.codec import decode_request as decode_request  # noqa: PLC0414 - as above
from wire.codec import decode_response as decode_response  # noqa: PLC0414 - as above
from wire.codec import encode as encode  # noqa: PLC0414 - as above
from wire.replies import error_body
from wire.schema import FieldShape, Shape, make_message, shape_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wire.apis import Api

Fields = Mapping[str, object]
"""Plain values by field name."""

T = TypeVar("T")
S = TypeVar("S", bound="Struct")


def make_request(api: Api, fields: Fields) -> Message:
    """Return a request of this API and version.

    Raises ValueError if a field is unknown, and WireError (a ValueError) if the codec does not know the version.
    """
    return cast("Message", _struct(codec.request_shape(api), fields))


def make_response(api: Api, fields: Fields) -> Message:
    """Return a reply of this API and version. Raises as `make_request`."""
    return cast("Message", _struct(codec.response_shape(api), fields))


def changed(struct: S, fields: Fields) -> S:
    """Return a copy of a message, or of a struct in it, with these fields. Raises ValueError if a field is unknown."""
    return replace(struct, **_values(shape_of(struct.__class__), fields))


def structs(struct: Struct, *path: str) -> tuple[Struct, ...]:
    """Return the elements of the array in this field; with more names, of the arrays in its elements, joined.

    An array that is null, or that this version does not have, has no elements. Raises TypeError if a field is no array
    of structs.
    """
    found: tuple[Struct, ...] = (struct,)
    for name in path:
        found = tuple(each for one in found for each in _elements(one, name))
    return found


def value(struct: Struct, name: str, kind: type[T], default: T) -> T:
    """Return the field of this name, or `default` if it is null or this version does not have it.

    Raises TypeError if it holds something else than a `kind`.
    """
    found: object = getattr(struct, name, None)
    if found is None:
        return default
    if not isinstance(found, kind):
        raise TypeError(
            f"{type(struct).__name__}.{name} is a {type(found).__name__}, expected {kind.__name__}"
        )
    return found


def error_reply(
    api: Api,
    request_body: bytes,
    code: int,
    message: str | None = None,
    brokers: Iterable[tuple[int, str, int]] = (),
) -> bytes:
    """Return the body of the reply that refuses this request with an error code, as a Reject does.

    The code stands where clients of this API look for it, `message` beside each code that has a place for text.
    `brokers` (node id, host, port) are those that a Metadata reply names. Raises WireError if there is no such reply:
    the codec does not know the version or the code, or the request cannot be read.
    """
    return error_body(api, request_body, code, message, brokers)


def _struct(shape: Shape, fields: Fields) -> object:
    return make_message(shape, 0, _values(shape, fields))


def _values(shape: Shape, fields: Fields) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, given in fields.items():
        field = shape.field(name)
        if field is None:
            there = [each.name for each in (*shape.untagged, *shape.tagged.values())]
            near = nearest(name, there)
            hint = f"; did you mean {near}?" if near else ""
            raise ValueError(
                f"{shape.type_.__name__} has no field {name!r}, only {', '.join(there)}{hint}"
            )
        if field.is_array and isinstance(given, list | tuple):
            values[name] = tuple(_value(field, each) for each in given)
        else:
            values[name] = _value(field, given)
    return values


def _value(field: FieldShape, given: object) -> object:
    if field.shape is not None and isinstance(given, Mapping):
        return _struct(field.shape, given)
    if isinstance(given, int) and issubclass(field.python_type, Enum):
        return field.python_type(given)
    if isinstance(given, int) and field.kafka_type.startswith("timedelta"):
        return timedelta(milliseconds=given)
    if isinstance(given, int) and field.kafka_type == "datetime_i64":
        return datetime.fromtimestamp(given / 1000, UTC)
    if isinstance(given, bytes) and field.kafka_type == "uuid":
        return UUID(bytes=given) if any(given) else None
    return given


def _elements(struct: Struct, name: str) -> tuple[Struct, ...]:
    found: object = getattr(struct, name, None)
    if found is None:
        return ()
    field = shape_of(type(struct)).field(name)
    if field is None or not field.is_array or field.shape is None:
        raise TypeError(f"{type(struct).__name__}.{name} is no array of structs")
    return cast("tuple[Struct, ...]", found)
