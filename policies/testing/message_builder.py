"""Bodies of requests and replies from plain values, for every API and version that the codec knows.

A message is given as a mapping of Kafka's field names in snake_case; its structs are mappings too. Fields that are not
named have the values that they have in an empty message. Times are in ms, topic ids are 16 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final
from uuid import UUID

from policies.type_names import nearest
from wire import messages
from wire.schema import FieldShape, Shape, make_message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wire.apis import Api

Fields = Mapping[str, object]
_LISTS: Final = (
    "subscribed_topic_names",
    "topics",
    "topic_data",
    "topic_names",
    "topic_partitions",
    "v3_and_below_topics",
    "resources",
)
_OUTER: Final = ("groups", "transactions")
_NAMES: Final = ("name", "topic", "topic_name", "resource_name")
_INDEXES: Final = ("index", "partition", "partition_index")
_PARTITIONS: Final = ("partitions", "partition_data", "partition_indexes")
_TOPIC_RESOURCE: Final = 2


def request_body(api: Api, fields: Fields) -> bytes:
    """Return the body of a request. Raises ValueError if a field is unknown, or its value does not fit."""
    return messages.encode(make_struct(messages.request_shape(api), fields))


def response_body(api: Api, fields: Fields) -> bytes:
    """Return the body of a reply. Raises ValueError if a field is unknown, or its value does not fit."""
    return messages.encode(make_struct(messages.response_shape(api), fields))


def make_struct(shape: Shape, fields: Fields) -> object:
    """Return a message of this shape with the given fields. Raises ValueError if it has no such field."""
    values: dict[str, object] = {}
    for name, value in fields.items():
        field = shape.field(name)
        if field is None:
            there = [each.name for each in (*shape.untagged, *shape.tagged.values())]
            near = nearest(name, there)
            hint = f"; did you mean {near}?" if near else ""
            raise ValueError(
                f"{shape.type_.__name__} has no field {name!r}, only {', '.join(there)}{hint}"
            )
        if field.is_array and isinstance(value, list | tuple):
            values[name] = tuple(_value(field, each) for each in value)
        else:
            values[name] = _value(field, value)
    return make_message(shape, 0, values)


def _value(field: FieldShape, value: object) -> object:
    if field.shape is not None and isinstance(value, Mapping):
        return make_struct(field.shape, value)
    if isinstance(value, int) and issubclass(field.python_type, Enum):
        return field.python_type(value)
    if isinstance(value, int) and field.kafka_type.startswith("timedelta"):
        return timedelta(milliseconds=value)
    if isinstance(value, int) and field.kafka_type == "datetime_i64":
        return datetime.fromtimestamp(value / 1000, UTC)
    if isinstance(value, bytes) and field.kafka_type == "uuid":
        return UUID(bytes=value) if any(value) else None
    return value


def topic_fields(
    shape: Shape,
    topics: Mapping[str, Iterable[int]],
    ids: Mapping[str, bytes],
    records: bytes | None = None,
) -> dict[str, object]:
    """Return the fields of a request that name these topics and partitions, in the shape of its API and version.

    `ids` are the ids of the topics, for versions that carry no names; `records` are those of each partition of a
    Produce. Raises ValueError for an API that names no topics.
    """
    for name in _LISTS:
        field = shape.field(name)
        if field is None:
            continue
        if field.shape is None:
            return {name: tuple(topics)}
        inner = field.shape
        return {
            name: tuple(
                _topic(inner, topic, ids, tuple(partitions), records)
                for topic, partitions in topics.items()
            )
        }
    for name in _OUTER:
        field = shape.field(name)
        if field is not None and field.shape is not None:
            return {name: (topic_fields(field.shape, topics, ids, records),)}
    raise ValueError(f"{shape.type_.__name__} names no topics")


def _topic(
    shape: Shape,
    topic: str,
    ids: Mapping[str, bytes],
    partitions: tuple[int, ...],
    records: bytes | None,
) -> dict[str, object]:
    named: dict[str, object] = {name: topic for name in _NAMES if shape.field(name)}
    if not named:
        named["topic_id"] = ids[topic]
    if shape.field("resource_type"):
        named["resource_type"] = _TOPIC_RESOURCE
    counts = {"num_partitions": len(partitions), "count": len(partitions), "replication_factor": 1}
    named |= {name: value for name, value in counts.items() if shape.field(name)}
    for name in _PARTITIONS:
        field = shape.field(name)
        if field is None or not field.is_array:
            continue
        if field.shape is None:
            named[name] = partitions
            continue
        inner = field.shape
        index = next((each for each in _INDEXES if inner.field(each)), None)
        if index is not None:
            extra = {"records": records} if records is not None and inner.field("records") else {}
            named[name] = tuple({index: each, **extra} for each in partitions)
    return named
