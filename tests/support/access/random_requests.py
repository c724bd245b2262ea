"""Random requests of every API that is authorized, made from the schemas of their versions.

A field gets its value from the tables of `field_values`, else the zero value: a new field needs no line.
"""

from __future__ import annotations

import random
import uuid
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, Final

from policies.messages import make_request
from tests.support.access.field_values import (
    FIELDS,
    GROUPS,
    PLACES,
    TOPICS,
    random_batch,
    random_topic,
)
from wire import codec
from wire.apis import Api, known
from wire.authorization import AUTHORIZED
from wire.schema import FieldShape, Shape

NOT_COMPARED: Final = {
    "SaslHandshake": "it comes before any right",
    "SaslAuthenticate": "it comes before any right",
    "ApiVersions": "it comes before any right",
    "CreateDelegationToken": "Sluice's tokens are its own: refused unless a rule has the act `tokens`",
    "RenewDelegationToken": "as CreateDelegationToken",
    "ExpireDelegationToken": "as CreateDelegationToken",
    "DescribeDelegationToken": "as CreateDelegationToken",
    "PushTelemetry": "no right; its answer depends on the one before",
}
"""APIs that the comparison leaves out, and why."""
_NO_VERSION: Final = {"AddPartitionsToTxn": range(4, 100)}
"""Versions that Sluice hides: a client library uses none of them."""
_METADATA_BY_ID: Final = 12
_BY_NAME: Final = 0.6
"""How many topics are named where an id would do."""
_WRITES: Final = 0.8
"""How often a Produce with a transactional id has batches of a transaction: else no right to the id is demanded."""
_UNKNOWN_ID: Final = uuid.UUID(int=0x5EED)
_CONFIGS: Final = {
    2: ((*TOPICS, "void"), "retention.ms", "100000000"),
    4: (("1", ""), "log.cleaner.threads", "1"),
    16: (("metrics-of-tests",), "interval.ms", "100000"),
    32: ((*GROUPS, "void-app"), "consumer.heartbeat.interval.ms", "5000"),
}
"""Name, key and value by the type of the resource."""


def _resource(api: str, chance: random.Random) -> dict[str, Any]:
    kind = chance.choice((2, 2, 4, 16, 32))
    names, key, value = _CONFIGS[kind]
    found: dict[str, Any] = {"resource_type": kind, "resource_name": chance.choice(names)}
    if api == "DescribeConfigs":
        return found | {"configuration_keys": [key]}
    return found | {"configs": [{"name": key, "value": value}]}


@cache
def compared() -> tuple[tuple[str, int, int], ...]:
    """Return (name, first version, last version) of each API that is compared, as the codec and the table know it."""
    found = []
    for key in sorted(AUTHORIZED):
        apis = [each for version in range(32) if (each := known(key, version)) is not None]
        apis = [each for each in apis if codec.is_known(each)]
        if apis and apis[0].name not in NOT_COMPARED:
            hidden = _NO_VERSION.get(apis[0].name, range(0))
            versions = [each.version for each in apis if each.version not in hidden]
            found.append((apis[0].name, versions[0], versions[-1]))
    return tuple(found)


def random_request(api: Api, chance: random.Random, topic_ids: dict[str, uuid.UUID]) -> Any:
    """Return a request. `topic_ids`: of the cluster's topics, by name; versions with ids get these."""
    while True:
        fields = _struct(api.name, codec.request_shape(api), chance, topic_ids)
        if api.name.endswith("Configs") and "resources" in fields:
            some = {
                (each["resource_type"], each["resource_name"]): each
                for each in (_resource(api.name, chance) for _ in range(chance.randrange(1, 4)))
            }
            fields["resources"] = list(some.values())
        if api.name == "Metadata":
            _name_alike(fields.get("topics") or (), chance, api.version >= _METADATA_BY_ID)
        if api.name == "Produce" and fields.get("transactional_id") and chance.random() < _WRITES:
            _make_transactional(fields)
        if not _has_doubles(fields):
            return make_request(api, fields)


def _name_alike(topics: Any, chance: random.Random, has_ids: bool) -> None:  # noqa: FBT001
    """Let all topics of a Metadata have ids, or all have names."""
    by_id = has_ids and chance.random() > _BY_NAME
    for topic in topics:
        if by_id:
            topic["topic_id"] = topic["topic_id"] or _UNKNOWN_ID
            topic["name"] = None
        else:
            topic["name"] = topic["name"] or random_topic(chance)
            topic.pop("topic_id", None)


def _make_transactional(fields: dict[str, Any]) -> None:
    for topic in fields["topic_data"]:
        for partition in topic["partition_data"]:
            partition["records"] = random_batch(transactional=True)


def _struct(
    place: str, shape: Shape, chance: random.Random, ids: dict[str, uuid.UUID]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in (*shape.untagged, *shape.tagged.values()):
        value = _value(f"{place}.{field.name}", field, chance, ids)
        if value is not ...:
            found[field.name] = value
    if "topic_id" in found and "name" in found:  # one of them is null
        found["topic_id" if chance.random() < _BY_NAME else "name"] = None
    return found


def _value(place: str, field: FieldShape, chance: random.Random, ids: dict[str, uuid.UUID]) -> Any:
    if field.kafka_type == "records":
        return random_batch()
    if place in PLACES:
        value = PLACES[place](chance)
    elif field.shape is not None:
        value = ...
    elif field.kafka_type == "uuid" and field.name == "topic_id":
        value = ids[chance.choice(TOPICS)] if chance.random() < 0.9 else _UNKNOWN_ID
    elif field.name in FIELDS:
        value = FIELDS[field.name](chance)
    else:
        return ...
    if value is ... and field.shape is not None:
        if not field.is_array:
            return _struct(place, field.shape, chance, ids)
        count = chance.choice((0, 1, 1, 1, 1, 2, 2, 2, 3, 3))
        return [_struct(place, field.shape, chance, ids) for _ in range(count)]
    if value is None and not field.is_nullable:
        return ...
    if field.kafka_type == "uuid" and isinstance(value, str):
        return ids.get(value.removeprefix("id of "), _UNKNOWN_ID)
    return typed(field, value)


def typed(field: FieldShape, value: Any) -> Any:
    """Return the value as the codec's class takes it."""
    if isinstance(value, list | tuple):
        return tuple(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int) and field.kafka_type.startswith("timedelta"):
        return timedelta(milliseconds=value)
    if isinstance(value, int) and field.kafka_type == "datetime_i64":
        return datetime.fromtimestamp(value / 1000, UTC)
    if isinstance(value, int) and issubclass(field.python_type, Enum):
        return field.python_type(value)
    return value


_NAMES: Final = (
    "producer_id",
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "partition_index",
    "partition",
    "index",
)


def _has_doubles(value: Any) -> bool:
    """Return whether a list has an item twice: Kafka's answers to these follow no rule."""
    if isinstance(value, dict):
        return any(map(_has_doubles, value.values()))
    if not isinstance(value, list | tuple):
        return False
    seen = set()
    for each in value:
        key = each
        if isinstance(each, dict):
            key = next((each[name] for name in _NAMES if each.get(name) is not None), None)
            key = each.get("group_id", key)
        if isinstance(key, str | int | uuid.UUID) and key in seen:
            return True
        if isinstance(key, str | int | uuid.UUID):
            seen.add(key)
        if _has_doubles(each):
            return True
    return False
