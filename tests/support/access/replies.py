"""What of a reply must be the same through `access` as from Kafka's authorizer: codes, names, rights; item by item.

Rules:
- Of a reply only the fields in KEPT are compared; the order of items is not. Messages, times, offsets, ids that
  a broker makes anew, and what a config holds, have no right of their own.
- EXCEPTIONS is the only place for a difference that is meant, with its reason.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

_FRESH: Final = re.compile(r"--\d{6}")
KEPT: Final = frozenset(
    {
        "error_code",
        "partition_error_code",
        "topic_config_error_code",
        "authorized_operations",
        "topic_authorized_operations",
        "cluster_authorized_operations",
        "group_id",
        "key",
        "name",
        "resource_name",
        "resource_type",
        "topic",
        "topic_id",
        "topic_name",
        "transactional_id",
        "user",
        "subscribed_topic_names",
        "source_topics",
        "partition",
        "partition_index",
        "partitions",
        "partition_indexes",
        "index",
    }
)
"""Fields whose values are compared. Every struct and every list of structs is looked into."""
INTERNAL: Final = "__"
EXCEPTIONS: Final[Mapping[str, str]] = {
    "internal topics": "`*` in a rule gives no internal topic (`__consumer_offsets`); in Kafka it does",
}
"""Each difference that is meant, and why."""
_NAMES: Final = ("name", "topic", "topic_name", "resource_name")


def projected(message: Any, ids: Mapping[uuid.UUID, str]) -> Any:
    """Return what is compared of a reply. `ids`: the names of topics, told in place of their ids."""
    if isinstance(message, tuple | list):
        items = _merged([projected(each, ids) for each in message if not _is_internal(each, ids)])
        return _sorted(items)
    if is_dataclass(message):
        found = {}
        for field in fields(message):
            value = getattr(message, field.name)
            if field.name in KEPT or _has_structs(value):
                found[field.name] = projected(value, ids)
        return found
    if isinstance(message, uuid.UUID):
        return f"id of {_plain(ids.get(message, 'a new topic'))}"
    if isinstance(message, Enum):
        return int(message.value)
    return _plain(message) if isinstance(message, str) else message


def _merged(items: list[Any]) -> list[Any]:
    """Return the items with those of one topic joined: Kafka's Fetch may name a topic several times."""
    found: dict[str, Any] = {}
    for item in items:
        if not (isinstance(item, dict) and isinstance(item.get("partitions"), list)):
            return items
        key = json.dumps({**item, "partitions": None}, sort_keys=True)
        there = found.setdefault(key, {**item, "partitions": []})
        there["partitions"] = _sorted([*there["partitions"], *item["partitions"]])
    return list(found.values())


def _sorted(items: list[Any]) -> list[Any]:
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _is_internal(item: Any, ids: Mapping[uuid.UUID, str]) -> bool:
    names = [getattr(item, name, None) for name in _NAMES]
    names.append(ids.get(getattr(item, "topic_id", None) or uuid.UUID(int=0)))
    return any(isinstance(name, str) and name.startswith(INTERNAL) for name in names)


def _has_structs(value: Any) -> bool:
    return is_dataclass(value) or (isinstance(value, tuple) and any(map(is_dataclass, value)))


def _plain(text: str) -> str:
    return _FRESH.sub("--#", text)


def difference(left: Any, right: Any, path: str = "") -> str:
    """Return the first place where two projections differ, with both values; "" if they are alike."""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        for name, value in left.items():
            if found := difference(value, right[name], f"{path}.{name}"):
                return found
        return ""
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for place, (one, other) in enumerate(zip(left, right, strict=True)):
            if found := difference(one, other, f"{path}[{place}]"):
                return found
        return ""
    return "" if left == right else f"{path}: Kafka {left!r}, Sluice {right!r}"


def codes(projection: Any) -> list[int]:
    """Return every error code of a projection."""
    if isinstance(projection, dict):
        own = [value for name, value in projection.items() if name.endswith("error_code")]
        return own + [code for value in projection.values() for code in codes(value)]
    if isinstance(projection, list):
        return [code for value in projection for code in codes(value)]
    return []
