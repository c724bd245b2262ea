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

from wire.apis import Api
from wire.schema import shape_of

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
    "topics without partitions": "a topic without partitions is in some of Kafka's replies, in others not",
    "ids and names of refused topics": "Sluice repeats what the request says; Kafka also tells the id in "
    "AlterShareGroupOffsets, which is a leak, and in DeleteTopics the name if it may be described",
    "lists of a refusal": "a refused ListPartitionReassignments and DescribeUserScramCredentials list what was asked, "
    "without a code or without a name; Sluice lists nothing",
    "ShareFetch of an unknown id": "Kafka's bug: -1 for the whole request; Sluice answers 100 at the partition",
    "Metadata by ids and names at once": "Kafka forgets the names; Sluice refuses them. No client asks so",
    "pages of DescribeTopicPartitions": "Sluice cuts the broker's page, so a page may be shorter; all pages together "
    "have the same topics (test_access_listings.py)",
    "patterns of KIP-848": "the broker does not know Sluice's rules: one is refused unless all topics may be described",
    "internal topics of Streams": "the broker would make them: refused without CREATE, where Kafka makes none",
    "DescribeUserScramCredentials of all users": "refused, Kafka gives no answer at all (NullPointerException)",
}
"""Each difference that is meant, and why."""
_LISTS: Final = frozenset({"ListPartitionReassignments", "DescribeUserScramCredentials"})
_CLUSTER_REFUSED: Final = 31
_UNKNOWN: Final = -1
_PARTITIONS: Final = ("partitions", "topics", "partition_responses", "results_by_partition")
_JOINED: Final = ("partitions", "results_by_partition")
_NAMES: Final = ("name", "topic", "topic_name", "resource_name")


def projected(message: Any, ids: Mapping[uuid.UUID, str]) -> Any:
    """Return what is compared of a reply. `ids`: the names of topics, told in place of their ids."""
    if isinstance(message, tuple | list):
        items = _merged([projected(each, ids) for each in message if not _is_internal(each, ids)])
        items = [each for each in items if not _is_empty(each)]
        return _sorted(items)
    if is_dataclass(message):
        found = {}
        for field in fields(message):
            value = getattr(message, field.name)
            if field.name in KEPT or is_dataclass(value) or _is_list(message, field.name):
                found[field.name] = projected(value, ids)
        return found
    if isinstance(message, uuid.UUID):
        return f"id of {_plain(ids.get(message, 'a new topic'))}"
    if isinstance(message, Enum):
        return int(message.value)
    return _plain(message) if isinstance(message, str) else message


def _merged(items: list[Any]) -> list[Any]:
    """Return the items with those of one topic joined: Kafka's Fetch may name a topic several times, and Sluice one of
    whose partitions some are missing.
    """
    found: dict[str, Any] = {}
    for item in items:
        held = item if isinstance(item, dict) else {}
        array = next((name for name in _JOINED if isinstance(held.get(name), list)), None)
        if array is None:
            return items
        key = json.dumps({**item, array: None}, sort_keys=True)
        there = found.setdefault(key, {**item, array: []})
        there[array] = _sorted([*there[array], *item[array]])
    return list(found.values())


def _is_empty(item: Any) -> bool:
    """Return whether it is a topic without partitions, and without a code of its own."""
    if not isinstance(item, dict) or "error_code" in item:
        return False
    return [] in (item.get(name) for name in _PARTITIONS)


def _sorted(items: list[Any]) -> list[Any]:
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _is_internal(item: Any, ids: Mapping[uuid.UUID, str]) -> bool:
    names = [getattr(item, name, None) for name in _NAMES]
    names.append(ids.get(getattr(item, "topic_id", None) or uuid.UUID(int=0)))
    return any(isinstance(name, str) and name.startswith(INTERNAL) for name in names)


def _is_list(message: Any, name: str) -> bool:
    field = shape_of(type(message)).field(name)
    return field is not None and field.is_array and field.shape is not None


def _plain(text: str) -> str:
    return _FRESH.sub("--#", text)


def meant(api: Api, kafka: Any, sluice: Any) -> Any:
    """Return Kafka's projection with what differs for a reason of EXCEPTIONS as Sluice has it."""
    if kafka is None or sluice is None:
        return kafka
    if api.name == "ShareFetch" and kafka["error_code"] == _UNKNOWN:
        return sluice
    if api.name in {"AlterShareGroupOffsets", "DeleteTopics"}:
        kafka = _as_asked(kafka, sluice)
    if api.name in _LISTS and kafka["error_code"] == sluice["error_code"] == _CLUSTER_REFUSED:
        return {**kafka, **{name: [] for name in ("results", "topics") if name in kafka}}
    return kafka


def _as_asked(kafka: Any, sluice: Any) -> Any:
    """Return Kafka's projection without names and ids of refused topics that the request does not have."""
    ours = sluice["responses"]
    found = []
    for item in kafka["responses"]:
        without = [{**item, name: None} for name in ("name", "topic_id") if name in item]
        found.append(next((each for each in without if each in ours and item not in ours), item))
    return {**kafka, "responses": _sorted(found)}


def difference(left: Any, right: Any, path: str = "") -> str:
    """Return the first place where two projections differ, with what only one of them has; "" if they are alike."""
    if left == right:
        return ""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        for name, value in left.items():
            if found := difference(value, right[name], f"{path}.{name}"):
                return found
    if isinstance(left, list) and isinstance(right, list):
        ours = [item for item in right if item not in left]
        return f"{path}: Kafka {[item for item in left if item not in right]}, Sluice {ours}"
    return f"{path}: Kafka {left!r}, Sluice {right!r}"


def codes(projection: Any) -> list[int]:
    """Return every error code of a projection."""
    if isinstance(projection, dict):
        own = [value for name, value in projection.items() if name.endswith("error_code")]
        return own + [code for value in projection.values() for code in codes(value)]
    if isinstance(projection, list):
        return [code for value in projection for code in codes(value)]
    return []
