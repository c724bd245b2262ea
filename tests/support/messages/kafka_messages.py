"""Random messages of any API, made from the codec's own schema for property tests."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache

from hypothesis import strategies as st

from wire import codec
from wire.apis import BY_KEY_AND_VERSION, Api, known
from wire.errors import ErrorCode, WireError
from wire.primitives import skip_tags
from wire.replies import error_body
from wire.schema import FieldShape, Shape, make_message
from wire.varint import encode_uvarint

_INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_TEXT = st.text("abcü.-9", max_size=12) | st.integers(100, 300).map(lambda size: "h" * size)


def apis_known() -> list[Api]:
    """Every offered version that the codec knows."""
    return [api for api in BY_KEY_AND_VERSION.values() if codec.is_known(api)]


def api_of(key: int, version: int) -> Api:
    """The facts of a version that the table surely has, offered or not."""
    api = known(key, version)
    assert api is not None
    return api


def name(api: Api) -> str:
    """How a parametrized test names an API."""
    return f"{api.name}-v{api.version}"


@cache
def messages_of(shape: Shape) -> st.SearchStrategy[object]:
    """Any message of this shape, lists short, strings of both size-byte lengths."""
    every = (*shape.untagged, *shape.tagged.values())
    return st.builds(shape.type_, **{field.name: _values(field) for field in every})


def _values(field: FieldShape) -> st.SearchStrategy[object]:
    value: st.SearchStrategy[object]
    if field.shape is not None:
        value = messages_of(field.shape)
    elif issubclass(field.python_type, Enum):
        value = st.sampled_from(sorted(field.python_type))
    elif field.kafka_type in _INTEGERS:
        value = st.integers(*_INTEGERS[field.kafka_type])
    elif field.kafka_type == "string":
        value = _TEXT
    elif field.kafka_type in {"bytes", "records"}:
        value = st.binary(max_size=20)
    elif field.kafka_type == "uuid":
        value = st.none() | st.uuids(version=4)
    elif field.kafka_type == "bool":
        value = st.booleans()
    elif field.kafka_type.startswith("timedelta"):
        value = st.integers(0, 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms))
    elif field.kafka_type == "datetime_i64":
        value = st.integers(0, 2**31).map(lambda s: datetime.fromtimestamp(s, UTC))
    else:
        value = st.just(0.5)
    if field.is_array:
        value = st.lists(value, max_size=3).map(tuple)
    return st.none() | value if field.is_nullable else value


def structs(message: object) -> Iterator[object]:
    """The message and every struct in it."""
    if isinstance(message, tuple):
        for item in message:
            yield from structs(item)
    elif is_dataclass(message):
        yield message
        for field in fields(message):
            yield from structs(getattr(message, field.name))


def changed(message, change):
    """The message with `change(struct, owner)` in place of every struct, innermost first."""

    def walk(value, owner):
        if isinstance(value, tuple):
            return tuple(walk(item, owner) for item in value)
        if is_dataclass(value):
            inner = {f.name: walk(getattr(value, f.name), value) for f in fields(value)}
            return change(replace(value, **inner), owner)
        return value

    return walk(message, None)


def with_unknown_tag(body: bytes, tags_at: int) -> bytes:
    """The body with tag 4711 appended to its last tag section, which is at `tags_at`."""
    assert skip_tags(body, tags_at, len(body)) == len(body)
    count = body[tags_at] + 1
    return body[:tags_at] + encode_uvarint(count) + body[tags_at + 1 :] + b"\xe7\x24\x03new"


def survives(call, *arguments) -> bool:
    """Whether the call returned; `WireError` is the only exception it may raise instead."""
    try:
        call(*arguments)
    except WireError:
        return False
    return True


def asking(shape: Shape) -> object:
    """Return a request with two elements in every list, so that the reply has items to answer."""
    said: dict[str, object] = {}
    for field in shape.untagged:
        if field.is_array and field.shape is not None:
            said[field.name] = (asking(field.shape), asking(field.shape))
        elif field.is_array:
            of_kind = {"string": ("a", "b"), "uuid": (None, None), "bytes": (b"", b"")}
            said[field.name] = of_kind.get(field.kafka_type, (4, 5))
        elif field.kafka_type == "string":
            said[field.name] = f"the {field.name}"
    return make_message(shape, 0, said)


def refused(key: int, version: int, request=None, code: int = ErrorCode.POLICY_VIOLATION):
    """Return the decoded error reply to this request, by default one with two elements in every list."""
    api = api_of(key, version)
    body = codec.encode(request or asking(codec.request_shape(api)))
    return codec.decode_response(api, error_body(api, body, code))
