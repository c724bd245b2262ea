"""Bodies of requests and replies from plain values (`policies.messages`), and topics in the shape of each API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies import messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.messages import Fields
    from wire.apis import Api
    from wire.schema import Shape

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
    return messages.encode(messages.make_request(api, fields))


def response_body(api: Api, fields: Fields) -> bytes:
    """Return the body of a reply. Raises ValueError if a field is unknown, or its value does not fit."""
    return messages.encode(messages.make_response(api, fields))


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
