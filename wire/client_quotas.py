"""DescribeClientQuotas and AlterClientQuotas (48, 49; KIP-546): reading the requests, writing the replies.

- An entity is a tuple of (type, name) pairs; name None is the default of that type.
- Requests are read by the codec library, with an element budget: any client may send them.
- Replies are written here, ten times as fast as by the codec: a list of quotas may have ten thousand entries, and the
  event loop serves no other client meanwhile.
- throttle_time_ms is the first field of both replies, and written as 0; the sender of the reply raises it.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, cast

from wire.codec import decode_request
from wire.primitives import (
    INT16,
    Buffer,
    encode_compact,
    encode_compact_count,
    encode_count,
    encode_string,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wire.apis import Api

Entity: TypeAlias = tuple[tuple[str, str | None], ...]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

MAX_REQUEST_ELEMENTS: Final = 10_000
"""Array elements that one request may have; Kafka, too, writes at most 10,000 records for one request."""

_NOT_THROTTLED: Final = bytes(4)
_FLOAT64: Final = Struct(">d")


class Match(IntEnum):
    """How a filter component matches an entity's name."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class Component(NamedTuple):
    """One condition of a filter. `match_type` may be a number that `Match` does not have."""

    entity_type: str
    match_type: int
    match: str | None


class DescribeRequest(NamedTuple):
    """A filter. If `strict`, entities with types that the filter does not name are left out."""

    components: tuple[Component, ...]
    strict: bool


class Alteration(NamedTuple):
    """The changes that one entry of an AlterClientQuotas asks for; a value of None removes the key."""

    entity: Entity
    ops: tuple[tuple[str, float | None], ...]


class AlterRequest(NamedTuple):
    """The alterations, in the order of the request."""

    entries: tuple[Alteration, ...]
    validate_only: bool


class DescribedEntity(NamedTuple):
    """One entry of a DescribeClientQuotas reply."""

    entity: Entity
    values: Sequence[tuple[str, float]]


class AlteredEntity(NamedTuple):
    """One entry of an AlterClientQuotas reply."""

    entity: Entity
    code: int
    message: str | None


def read_describe(api: Api, body: Buffer) -> DescribeRequest:
    """Return the filter in a DescribeClientQuotas body. Raises `WireError` if it is malformed or too long."""
    asked = cast("_DescribeMessage", decode_request(api, body, MAX_REQUEST_ELEMENTS))
    components = (Component(c.entity_type, c.match_type, c.match) for c in asked.components)
    return DescribeRequest(tuple(components), asked.strict)


def read_alter(api: Api, body: Buffer) -> AlterRequest:
    """Return the alterations in an AlterClientQuotas body. Raises `WireError` if it is malformed or too long."""
    asked = cast("_AlterMessage", decode_request(api, body, MAX_REQUEST_ELEMENTS))
    entries = (
        Alteration(
            tuple((part.entity_type, part.entity_name) for part in entry.entity),
            tuple((op.key, None if op.remove else op.value) for op in entry.ops),
        )
        for entry in asked.entries
    )
    return AlterRequest(tuple(entries), asked.validate_only)


def describe_reply(
    api: Api, entries: Sequence[DescribedEntity] | None, code: int = 0, message: str | None = None
) -> bytes:
    """Return the body of a DescribeClientQuotas reply; with an error `entries` is None, as in Kafka."""
    text, count, tags = _spelling(api)
    out = [_NOT_THROTTLED, INT16.pack(code), text(_utf8(message))]
    out.append(count(-1 if entries is None else len(entries)))
    key_texts: dict[str, bytes] = {}
    for entity, values in entries or ():
        _write_entity(out, api, entity)
        out.append(count(len(values)))
        for key, value in values:
            key_text = key_texts.get(key)
            if key_text is None:
                key_text = key_texts[key] = text(key.encode())
            out += (key_text, _FLOAT64.pack(value), tags)
        out.append(tags)
    out.append(tags)
    return b"".join(out)


def alter_reply(api: Api, entries: Sequence[AlteredEntity]) -> bytes:
    """Return the body of an AlterClientQuotas reply."""
    text, count, tags = _spelling(api)
    out = [_NOT_THROTTLED, count(len(entries))]
    for entity, code, message in entries:
        out += (INT16.pack(code), text(_utf8(message)))
        _write_entity(out, api, entity)
        out.append(tags)
    out.append(tags)
    return b"".join(out)


def _write_entity(out: list[bytes], api: Api, entity: Entity) -> None:
    text, count, tags = _spelling(api)
    out.append(count(len(entity)))
    for kind, name in entity:
        out += (text(kind.encode()), text(_utf8(name)), tags)


def _spelling(api: Api) -> tuple[Callable[[bytes | None], bytes], Callable[[int], bytes], bytes]:
    """Return how this version writes a string, an array's count, and the end of a struct."""
    if api.flexible:
        return encode_compact, encode_compact_count, b"\x00"
    return encode_string, encode_count, b""


def _utf8(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


# -- the fields of the codec's classes that are read here -----------------------------------------


class _ComponentData(Protocol):
    entity_type: str
    match_type: int
    match: str | None


class _DescribeMessage(Protocol):
    components: tuple[_ComponentData, ...]
    strict: bool


class _EntityData(Protocol):
    entity_type: str
    entity_name: str | None


class _OpData(Protocol):
    key: str
    value: float
    remove: bool


class _EntryData(Protocol):
    entity: tuple[_EntityData, ...]
    ops: tuple[_OpData, ...]


class _AlterMessage(Protocol):
    entries: tuple[_EntryData, ...]
    validate_only: bool
