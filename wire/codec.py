"""Bodies as typed objects: with `wire.newer_messages`, the only module that uses the codec library.

- A message is an instance of one of kio's classes, generated from Kafka's own definitions
  (`kio.schema.<api>.v<N>.request:...Request`): fields in snake_case, frozen, compared by value.
- Decoding is for the slow path: it costs 100 times as much as reading single fields. Encoding costs even more.
- kio is imported with the first message, not at start-up (`prepare`).
- kio's decoder trusts its input, so every body is checked first (`schema.check`). A body or message that kio cannot
  decode or encode, and an API or version that neither it nor `wire.newer_messages` has, raises `WireError`.
- Tagged fields that kio does not know are dropped; a decoded body encoded again lacks them.
"""

from __future__ import annotations

import sys
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from wire import newer_messages
from wire.errors import WireError
from wire.primitives import ELEMENT_BUDGET, Buffer
from wire.schema import Shape, check, shape_of
from wire.unknown_tags import without_unknown_tags

if TYPE_CHECKING:
    from collections.abc import Callable

    from kio.static.protocol import Entity, Payload

    from wire.apis import Api

    Message: TypeAlias = Payload
    """A request or a reply."""
    Struct: TypeAlias = Entity | Payload
    """A message, or a struct in it."""
else:
    Message = Struct = object  # for annotations only: the codec is imported with the first message


def prepare() -> None:
    """Load the codec now, so that the first message does not wait for it."""
    import kio.index  # noqa: PLC0415 - lazily, see above
    import kio.serial  # noqa: PLC0415, F401 - lazily, see above


def decode_request(api: Api, body: Buffer, budget: int = ELEMENT_BUDGET) -> Message:
    """Return the request whose whole body is `body`.

    Bytes after its last field are ignored, as a broker ignores them: librdkafka 2.16 sends some. Raises `WireError` if
    it is malformed, and `BudgetError` if it has more than `budget` array elements and tagged fields.
    """
    return _decode(request_shape(api), body, budget)[0]


def decode_response(api: Api, body: Buffer) -> Message:
    """Return the response whose whole body is `body`. Raises `WireError` if it is malformed."""
    message, after = _decode(response_shape(api), body, ELEMENT_BUDGET)
    if after != len(body):
        raise WireError(f"{len(body) - after} bytes follow the last field of a {api.name} response")
    return message


def decode_struct(shape: Shape, data: Buffer, budget: int) -> object:
    """Return the struct of this shape whose bytes are `data`. Raises as `decode_request`."""
    return _decode(shape, data, budget)[0]


def encode(message: object) -> bytes:
    """Return the body of a message, request or response. Raises `WireError` if a value does not fit its field."""
    from kio.serial import entity_writer  # noqa: PLC0415 - lazily, see above

    out = BytesIO()
    try:
        entity_writer(type(message))(out, message)  # type: ignore[type-var] # checked by kio itself
    except Exception as error:  # what kio raises depends on the wrong value
        raise WireError(f"{type(message).__name__} cannot be encoded: {error!r}") from error
    return out.getvalue()


def request_shape(api: Api) -> Shape:
    """Return the shape of an API's requests. Raises `WireError` if the codec does not know the version."""
    return shape_of(_class_of(api, "request"))


def response_shape(api: Api) -> Shape:
    """Return the shape of an API's responses. Raises `WireError` if the codec does not know the version."""
    return shape_of(_class_of(api, "response"))


def is_known(api: Api) -> bool:
    """Return whether the codec knows this API in this version."""
    try:
        request_shape(api)
    except WireError:
        return False
    return True


@cache  # kio imports a module by its name each time
def _class_of(api: Api, kind: Literal["request", "response"]) -> type:
    if "kio.serial" not in sys.modules:
        prepare()
    from kio.index import (  # noqa: PLC0415 - lazily, see above
        KioIndexError,
        load_request_schema,
        load_response_schema,
    )

    load = load_request_schema if kind == "request" else load_response_schema
    try:
        return load(api.key, api.version)
    except KioIndexError as error:
        newer = newer_messages.class_of(api.key, api.version, kind)
        if newer is None:
            raise WireError(f"the codec does not know {api.name} v{api.version}") from error
        return newer


def _decode(shape: Shape, body: Buffer, budget: int) -> tuple[Message, int]:
    """Return the message, and the offset after its last field."""
    from kio.serial import entity_reader  # noqa: PLC0415 - lazily, see above

    body = bytes(body)
    after, _ = check(shape, body, 0, len(body), budget)
    try:
        return cast("Message", _read(entity_reader(shape.type_), shape, body)), after
    except Exception as error:  # invalid text, a null where none may be, an unknown error code
        raise WireError(f"{shape.type_.__name__} cannot be decoded: {error!r}") from error


def _read(reader: Callable[[bytes, int], tuple[object, int]], shape: Shape, body: bytes) -> object:
    try:
        return reader(body, 0)[0]
    except KeyError:  # the decoder raises it for a tag that it does not know, in a flexible message
        return reader(without_unknown_tags(shape, body), 0)[0]
