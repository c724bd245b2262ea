"""Kafka frames by grammar: every API and version that is offered, written straight from the codec's schemas.

The writer is the tests' own, so that it can write what the codec would refuse. A string of a reply that names a host
is the broker's real address, a port its real port: if one of these reaches a client, it leaks.
"""

import random
import struct
from dataclasses import dataclass
from functools import cache
from typing import Final

from tests.support.faults.stub_broker import ADDRESS
from tests.support.messages import frames as f
from wire import codec
from wire.apis import BY_KEY_AND_VERSION, Api
from wire.primitives import encode_compact, encode_compact_count, encode_string
from wire.schema import FieldShape, Shape
from wire.varint import encode_uvarint

LYING_ADDRESS: Final = "127.0.20.9"
"""Where the broker of a reply says it is that is mutated afterwards: a mutation may move it into a field that is no
address. A grammatical reply has the stub broker's own ADDRESS; no byte string like that may ever reach a client."""
CLIENT_HOST: Final = b"10.9.8.7"
HOSTS_OF_CLIENTS: Final = frozenset({29, 30, 31, 88, 89})
"""APIs whose replies have hosts that are no broker's: ACLs name clients, Streams groups the members' own endpoints."""
NODES: Final = (1, 2, 3, 0, 7, 900, -1)
CLIENT_IDS: Final = (b"tests", b"fuzz", None, b"", b"noisy", b"\xff\xfe\x00", b"n" * 300)
_TEXTS: Final = (
    b"",
    b"t",
    b"group",
    b"fuzz-topic",
    "gr\u00fc\u00df".encode(),
    b"x" * 127,
    b"PLAIN",
    b"user",
)
_FORMATS: Final = {
    "int8": ">b",
    "uint8": ">B",
    "int16": ">h",
    "uint16": ">H",
    "error_code": ">h",
    "int32": ">i",
    "uint32": ">I",
    "timedelta_i32": ">i",
    "int64": ">q",
    "uint64": ">Q",
    "timedelta_i64": ">q",
    "datetime_i64": ">q",
}
_BITS: Final = {name: 8 * struct.calcsize(form) for name, form in _FORMATS.items()}


@dataclass(frozen=True, slots=True)
class Host:
    """The host and port that a reply gives for all brokers."""

    name: bytes
    port: int


TRUE_HOST: Final = Host(ADDRESS.encode(), 9092)
LYING_HOST: Final = Host(LYING_ADDRESS.encode(), 1)


@cache
def apis() -> tuple[Api, ...]:
    """Return every offered version, in a fixed order."""
    return tuple(sorted(BY_KEY_AND_VERSION.values(), key=lambda api: (api.key, api.version)))


def request(api: Api, correlation_id: int, chance: random.Random) -> bytes:
    """Return a grammatical request frame."""
    client_id = (
        chance.choice(CLIENT_IDS[:5]) if chance.random() < 0.95 else chance.choice(CLIENT_IDS)
    )
    head = struct.pack(">hhi", api.key, api.version, correlation_id)
    if api.request_header_version:
        head += encode_string(client_id)
    if api.request_header_version == 2:
        head += b"\x00"
    if not codec.is_known(api):
        return f.frame(head + chance.randbytes(chance.randrange(60)))
    return f.frame(head + body(codec.request_shape(api), chance, TRUE_HOST))


def reply(api: Api, correlation_id: int, chance: random.Random, host: Host = TRUE_HOST) -> bytes:
    """Return a grammatical reply frame whose brokers are at `host`."""
    head = struct.pack(">i", correlation_id) + b"\x00" * api.response_header_version
    if not codec.is_known(api):
        return f.frame(head + chance.randbytes(chance.randrange(60)))
    if api.key in HOSTS_OF_CLIENTS:
        host = Host(CLIENT_HOST, host.port)
    return f.frame(head + body(codec.response_shape(api), chance, host))


def body(shape: Shape, chance: random.Random, host: Host, depth: int = 0) -> bytes:
    """Return any message of this shape."""
    parts = [_field(each, shape, chance, host, depth) for each in shape.untagged]
    if shape.is_flexible:
        parts.append(_tags(shape, chance, host, depth))
    return b"".join(parts)


def _tags(shape: Shape, chance: random.Random, host: Host, depth: int) -> bytes:
    if chance.random() < 0.6:
        return b"\x00"
    fields = [
        (tag, _field(each, shape, chance, host, depth))
        for tag, each in sorted(shape.tagged.items())
        if chance.random() < 0.7
    ]
    if chance.random() < 0.1:
        unknown = 10_000 + chance.randrange(1000)
        fields.append((unknown, chance.randbytes(chance.randrange(9))))
    parts = [encode_uvarint(len(fields))]
    for tag, value in fields:
        parts += [encode_uvarint(tag), encode_uvarint(len(value)), value]
    return b"".join(parts)


def _field(field: FieldShape, owner: Shape, chance: random.Random, host: Host, depth: int) -> bytes:
    if not field.is_array:
        if field.shape is not None and field.is_nullable:
            if chance.random() < 0.5:
                return b"\xff"
            return b"\x01" + _value(field, owner, chance, host, depth)
        return _value(field, owner, chance, host, depth)
    count = chance.choice((0, 1, 1, 2, 3) if depth < 3 else (0, 0, 1))
    if field.is_nullable and chance.random() < 0.15:
        count = -1
    head = encode_compact_count(count) if owner.is_flexible else struct.pack(">i", count)
    values = [_value(field, owner, chance, host, depth + 1) for _ in range(count)]
    return b"".join((head, *values))


def _value(field: FieldShape, owner: Shape, chance: random.Random, host: Host, depth: int) -> bytes:
    kind = field.kafka_type
    if field.shape is not None:
        return body(field.shape, chance, host, depth)
    if kind == "bool":
        return chance.choice((b"\x00", b"\x01"))
    if kind == "uuid":
        return chance.choice((bytes(16), b"\x01" * 16, chance.randbytes(16)))
    if kind == "float64":
        return struct.pack(">d", chance.choice((0.0, 0.5, -1.0, 1e300)))
    if kind in _FORMATS:
        return struct.pack(_FORMATS[kind], _integer(field, kind, chance, host))
    if field.is_nullable and not field.is_array and chance.random() < 0.2:
        data = None
    elif kind == "string":
        data = host.name if field.name == "host" else chance.choice(_TEXTS)
    else:
        data = chance.randbytes(chance.choice((0, 1, 7, 61, 127, 600)))
    if owner.is_flexible:
        return encode_compact(data)
    if kind == "string":
        return encode_string(data)
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _integer(field: FieldShape, kind: str, chance: random.Random, host: Host) -> int:
    name = field.name
    if name == "port":
        return host.port
    if name in {"node_id", "broker_id", "leader_id", "controller_id"}:
        return chance.choice(NODES)
    if name == "acks":
        return chance.choice((-1, -1, 0, 1, 1, 7))
    if kind in {"timedelta_i32", "timedelta_i64"}:
        return chance.choice((0, 0, 5, 100, 500, 3000, 2**31 - 1))
    if kind == "error_code":
        return chance.choice((0, 0, 0, 3, 6, 15, 58, -1))
    bits = _BITS[kind]
    if kind.startswith("u"):
        return chance.choice((0, 1, 9092, 2**bits - 1))
    if kind == "datetime_i64":
        return chance.choice((-1, 0, 1_700_000_000_000))
    highest = 2 ** (bits - 1) - 1
    return chance.choice((0, 0, 1, 1, 2, 7, -1, 100, highest, -highest - 1))
