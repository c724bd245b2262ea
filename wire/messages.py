"""Bodies as typed objects, for whoever asks: the only file that speaks to the codec library.

- A message is an instance of one of kio's classes, generated from Kafka's own definitions
  (`kio.schema.<api>.v<N>.request:...Request`): fields in snake_case, frozen, compared by value.
- Decoding is for the slow path: 100 times the cost of a peek. Encoding is dearer still.
- kio comes in with the first message asked for, not at start-up: it costs 90 ms and 8 MB.
- Its decoder trusts what it reads, so every body is checked first (`schema.check`). What cannot be
  decoded or encoded, and an API or version that kio does not know, is a `WireError`.
- Tagged fields that kio does not know are dropped; a decoded body encoded again lacks them.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Literal

from wire.errors import WireError
from wire.primitives import ELEMENT_BUDGET, Buffer
from wire.schema import Shape, check, shape_of
from wire.unknown_tags import without_unknown_tags

if TYPE_CHECKING:
    from collections.abc import Callable

    from wire.apis import Api


def prepare() -> None:
    """Load the codec now, so that the first message asked for does not wait for it."""
    import kio.index  # noqa: PLC0415 - lazily, see above
    import kio.serial  # noqa: PLC0415, F401 - lazily, see above


def decode_request(api: Api, body: Buffer, budget: int = ELEMENT_BUDGET) -> object:
    """The request whose body is `body`, whole; `WireError` beyond `budget` array elements."""
    return _decode(request_shape(api), body, budget)


def decode_response(api: Api, body: Buffer) -> object:
    """The response whose body is `body`, whole."""
    return _decode(response_shape(api), body, ELEMENT_BUDGET)


def encode(message: object) -> bytes:
    """The body of a message, request or response, as its own class spells it."""
    from kio.serial import entity_writer  # noqa: PLC0415 - lazily, see above

    out = BytesIO()
    try:
        entity_writer(type(message))(out, message)  # type: ignore[type-var] # checked by kio itself
    except Exception as error:  # whatever a value of the wrong kind makes of it
        raise WireError(f"{type(message).__name__} cannot be encoded: {error!r}") from error
    return out.getvalue()


def request_shape(api: Api) -> Shape:
    """The shape of an API's requests."""
    return shape_of(_class_of(api, "request"))


def response_shape(api: Api) -> Shape:
    """The shape of an API's responses."""
    return shape_of(_class_of(api, "response"))


def is_known(api: Api) -> bool:
    """Whether the codec knows this API in this version."""
    try:
        request_shape(api)
    except WireError:
        return False
    return True


def _class_of(api: Api, kind: Literal["request", "response"]) -> type:
    from kio.index import (  # noqa: PLC0415 - lazily, see above
        KioIndexError,
        load_request_schema,
        load_response_schema,
    )

    load = load_request_schema if kind == "request" else load_response_schema
    try:
        return load(api.key, api.version)
    except KioIndexError as error:
        raise WireError(f"the codec does not know {api.name} v{api.version}") from error


def _decode(shape: Shape, body: Buffer, budget: int) -> object:
    from kio.serial import entity_reader  # noqa: PLC0415 - lazily, see above

    body = bytes(body)
    after, _ = check(shape, body, 0, len(body), budget)
    if after != len(body):
        raise WireError(f"{len(body) - after} bytes behind the end of {shape.type_.__name__}")
    try:
        message: object = _read(entity_reader(shape.type_), shape, body)
    except Exception as error:  # invalid text, a null where none may be, an unknown error code
        raise WireError(f"{shape.type_.__name__} cannot be decoded: {error!r}") from error
    return message


def _read(reader: Callable[[bytes, int], tuple[object, int]], shape: Shape, body: bytes) -> object:
    try:
        return reader(body, 0)[0]
    except KeyError:  # what the decoder says of a tag that it does not know
        return reader(without_unknown_tags(shape, body), 0)[0]
