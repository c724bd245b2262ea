"""The attempts of `attempts.yaml`, as requests, and what became of each.

The names are those of the prepared cluster (`guarded_kafka`). A field that a version does not have is left out; what
all requests have (BASE) is not in the file.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from policies.messages import make_request
from tests.support.access.field_values import random_batch
from tests.support.access.random_requests import typed
from tests.support.messages.kafka_messages import api_of
from wire import codec
from wire.apis import Api, key_named
from wire.schema import Shape

FILE: Final = Path(__file__).with_name("attempts.yaml")
BEGIN, END = "<!-- attempts: begin -->", "<!-- attempts: end -->"
MALLORY, CLERK = "mallory", "clerk"
RIGHTS: Final = {MALLORY: "no right", CLERK: "`orders.rich` in `pay-app`"}
RULES: Final = (
    {
        "who": [CLERK],
        "topics": {"orders.rich": ["read", "write"]},
        "groups": {"pay-app": ["read"]},
    },
)
OWN: Final = frozenset({"orders.rich", "pay-app"})
"""What the clerk has a right to."""
_PART: Final = {
    "partition_index": 0,
    "partition": 0,
    "index": 0,
    "records": random_batch(),
    "partition_max_bytes": 1000,
    "current_leader_epoch": -1,
    "timestamp": -1,
    "committed_offset": 7,
    "fetch_offset": 0,
    "acknowledgement_batches": [],
    "replicas": [1],
}
BASE: Final[Mapping[str, Any]] = {
    "timeout": 1000,
    "max_wait": 0,
    "min_bytes": 0,
    "max_bytes": 1000,
    "acks": -1,
    "member_id": "",
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "producer_id": 4711,
    "producer_epoch": 0,
    "replica_id": -1,
    "v3_and_below_producer_id": 4711,
    "v3_and_below_producer_epoch": 0,
}


def _topic(name: str) -> dict[str, Any]:
    """Return a topic of a request, with whatever a version may want to know of it."""
    named = dict.fromkeys(("name", "topic", "topic_name", "topic_id"), name)
    parts = {each: [_PART] for each in ("partitions", "partition_data", "partition_indexes")}
    return {**named, **parts, "num_partitions": 1, "replication_factor": 1, "count": 9}


_WORDS: Final[Mapping[str, Any]] = {
    "$orders": [_topic("orders")],
    "$transaction": [
        {
            **_topic("orders"),
            "partition_data": [{**_PART, "records": random_batch(transactional=True)}],
        }
    ],
    "$rich": [_topic("orders.rich")],
    "$both": [_topic("orders.rich"), _topic("orders")],
    "$new": [_topic("made-by-mallory")],
    "$metadata": [_topic("__cluster_metadata")],
    "$key": bytes(range(32)),
    "$salt": b"salt",
    "$member": str(uuid.UUID(int=38)),
}


class Attempt(NamedTuple):
    """One request."""

    user: str
    name: str
    version: int
    what: str
    code: int
    """Every refused item has it; 0: nothing is refused, and nothing foreign is named."""
    fields: Mapping[str, Any]

    @property
    def api(self) -> Api:
        """The facts of its version."""
        return api_of(key_named(self.name), self.version)

    def message(self, ids: Mapping[str, uuid.UUID]) -> Any:
        """Return the request. `ids`: of topics."""
        shape = codec.request_shape(self.api)
        return make_request(self.api, _fitting(shape, {**BASE, **self.fields}, ids))

    @property
    def verdict(self) -> str:
        """Return what it gets, as the table says it."""
        if not self.code:
            return "an answer without the others' names"
        return str(self.code)


def attempts() -> Iterator[Attempt]:
    """Yield all attempts."""
    for user, table in yaml.safe_load(FILE.read_text("utf-8")).items():
        for name, versions, what, code, fields in table:
            for version in versions:
                yield Attempt(user, name, version, what, code, fields)


def table(tried: Iterable[tuple[Attempt, str]]) -> str:
    """Return the table of attempts and their verdicts between its two marks, as it stands in the documents."""
    rows: dict[tuple[str, str, str, str], list[int]] = {}
    for attempt, verdict in tried:
        row = (attempt.name, RIGHTS[attempt.user], attempt.what, verdict)
        rows.setdefault(row, []).append(attempt.version)
    lines = [
        f"| {name} | {', '.join(map(str, versions))} | {right} | {what} | {verdict} |"
        for (name, right, what, verdict), versions in rows.items()
    ]
    head = "| API | versions | rights | attempt | answer |\n|" + "---|" * 5
    return "\n".join((BEGIN, "", head, *lines, "", END))


def _fitting(
    shape: Shape, given: Mapping[str, Any], ids: Mapping[str, uuid.UUID]
) -> dict[str, Any]:
    """Return the fields that this version has, as it wants them."""
    found: dict[str, Any] = {}
    for name, said in given.items():
        field = shape.field(name)
        value = _WORDS.get(said, said) if isinstance(said, str) else said
        if field is None:
            continue
        if name == "topic_id":
            if not (given.get("name") and shape.field("name")):
                found[name] = ids[value]
        elif isinstance(value, Mapping) and field.shape is not None:
            found[name] = _fitting(field.shape, value, ids)
        elif isinstance(value, list) and field.shape is not None:
            found[name] = [_fitting(field.shape, each, ids) for each in value]
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            found[name] = [each["partition_index"] for each in value]
        else:
            found[name] = typed(field, value)
    return found
