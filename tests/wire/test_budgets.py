"""Every nested count of every walker costs budget: each element of a list, and each tagged field.

A body is made from the codec's own schema, with two elements in every list and three
unknown tags in every struct; the maker counts what it writes. The smallest budget with
which a walker reads that body must equal the count of the elements that the walker passes.
A walker that does not charge for a list or a tag section needs less, and fails here.
"""

from collections import Counter
from collections.abc import Callable
from struct import pack

import pytest

from tests.support.messages.every_case import for_each
from tests.support.messages.frames import bytes_field
from tests.support.messages.kafka_messages import api_of
from wire import (
    addresses,
    broker_lists,
    codec,
    fetch_walk,
    metadata,
    node_endpoints,
    schema,
    throttle,
    versions,
)
from wire.apis import OFFERED, Api, ApiKey
from wire.errors import BudgetError
from wire.fetch_topics import FetchTopics
from wire.primitives import (
    encode_compact,
    encode_compact_count,
    encode_count,
    encode_string,
)
from wire.produce import ProduceWalker, read_acks
from wire.produce_partitions import pack_topics
from wire.schema import FieldShape, Shape
from wire.varint import encode_uvarint

EACH = 2
TAGS = 3
FIRST_TAG = 1000
"""No schema has such a tag."""
WITH_BUDGET = (
    addresses,
    broker_lists,
    node_endpoints,
    fetch_walk,
    metadata,
    throttle,
    versions,
)


class Maker:
    """Writes a full message; `paid` counts elements and tags by the path of their list or struct."""

    def __init__(self, shape: Shape) -> None:
        self.out = bytearray()
        self.paid: Counter[str] = Counter()
        self._struct(shape, "")

    def _struct(self, shape: Shape, path: str) -> None:
        for field in shape.untagged:
            self._field(field, shape.is_flexible, path)
        if not shape.is_flexible:
            return
        # Only the known tag that walkers read is written: the new leaders.
        known = [(tag, each) for tag, each in shape.tagged.items() if each.name == "node_endpoints"]
        self.out += encode_uvarint(TAGS + len(known))
        self.paid[f"{path}tags"] += TAGS + len(known)
        for tag, field in known:
            outer, self.out = self.out, bytearray()
            self._field(field, True, path)
            self.out = outer + encode_uvarint(tag) + encode_uvarint(len(self.out)) + self.out
        for tag in range(FIRST_TAG, FIRST_TAG + TAGS):
            self.out += encode_uvarint(tag) + b"\x01x"

    def _field(self, field: FieldShape, is_flexible: bool, path: str) -> None:  # noqa: FBT001 - handed down
        if not field.is_array:
            if field.shape is not None and field.is_nullable:
                self.out += b"\x01"
            self._value(field, is_flexible, f"{path}{field.name}.")
            return
        self.out += (encode_compact_count if is_flexible else encode_count)(EACH)
        self.paid[f"{path}{field.name}"] += EACH
        for _ in range(EACH):
            self._value(field, is_flexible, f"{path}{field.name}.")

    def _value(self, field: FieldShape, is_flexible: bool, path: str) -> None:  # noqa: FBT001 - handed down
        if field.shape is not None:
            self._struct(field.shape, path)
        elif size_bytes := schema.FIXED_BYTES.get(field.kafka_type):
            value = 9092 if field.name == "port" else 0
            self.out += value.to_bytes(size_bytes, "big")
        elif is_flexible:
            self.out += encode_compact(b"text")
        else:
            self.out += (encode_string if field.kafka_type == "string" else bytes_field)(b"text")


def rewrite(api: Api, body: bytes) -> None:
    rewriter = addresses.rewriter(api)
    assert rewriter is not None
    rewriter(bytearray(body), 0, len(body), lambda *_: (b"proxy", 19092))


def frame(api: Api, body: bytes) -> bytearray:
    rest = pack(">i", 7) + b"\x00" * api.response_header_version + body
    return bytearray(pack(">i", len(rest)) + rest)


def find_throttle(api: Api, body: bytes) -> None:
    data = frame(api, body)
    assert throttle.throttle_at(data, 0, len(data), api) is not None


def narrow(api: Api, body: bytes) -> None:
    versions.narrow(body, 0, len(body), api.version, OFFERED)


def learn_names(api: Api, body: bytes) -> None:
    metadata.topic_names(body, 0, len(body), api)


def learn_brokers(api: Api, body: bytes) -> None:
    metadata.read_brokers(frame(api, body))


def walk_fetch(api: Api, body: bytes) -> None:
    data = frame(api, body)
    walker = FetchTopics(api.version)
    walker.feed(data, 0, len(data))
    if walker.broken:
        raise BudgetError
    assert walker.done


TOPICS = {"responses", "responses.tags"}
PRODUCED = {
    "tags", *TOPICS, "responses.partition_responses", "responses.partition_responses.tags",
    "responses.partition_responses.record_errors", "responses.partition_responses.record_errors.tags",
}  # fmt: skip
ENDPOINTS = {"node_endpoints", "node_endpoints.tags"}
PARTITIONS = {*TOPICS, "responses.partitions", "responses.partitions.tags"}
ABORTED = {
    "responses.partitions.aborted_transactions",
    "responses.partitions.aborted_transactions.tags",
}
LEADERS = {"responses.partitions.current_leader.tags"}
ACQUIRED = {
    "responses.partitions.acquired_records",
    "responses.partitions.acquired_records.tags",
}
QUORUM = {
    "topics", "topics.tags", "topics.partitions", "topics.partitions.tags",
    "topics.partitions.current_voters", "topics.partitions.current_voters.tags",
    "topics.partitions.observers", "topics.partitions.observers.tags",
    "nodes", "nodes.tags", "nodes.listeners", "nodes.listeners.tags",
}  # fmt: skip
NAMED = {"brokers", "brokers.tags", "topics", "topics.tags", "topics.partitions", "topics.partitions.tags"}  # fmt: skip
TOKENS = {"tokens", "tokens.tags", "tokens.renewers", "tokens.renewers.tags", "tags"}
KEYS = {"api_keys", "api_keys.tags"}

READERS = [
    *((rewrite, ApiKey.METADATA, v, {"brokers"}) for v in range(9)),
    *((rewrite, ApiKey.METADATA, v, {"brokers", "brokers.tags"}) for v in range(9, 14)),
    *((rewrite, ApiKey.DESCRIBE_CLUSTER, v, {"brokers", "brokers.tags"}) for v in range(3)),
    *((rewrite, ApiKey.FIND_COORDINATOR, v, {"coordinators", "coordinators.tags"}) for v in (4, 5, 6)),
    (rewrite, ApiKey.DESCRIBE_QUORUM, 2, QUORUM),
    *((rewrite, ApiKey.PRODUCE, v, PRODUCED | ENDPOINTS) for v in range(10, 14)),
    *((rewrite, ApiKey.FETCH, v, {"tags"} | PARTITIONS | ABORTED | ENDPOINTS) for v in (16, 17)),
    *((rewrite, ApiKey.SHARE_FETCH, v, PARTITIONS | LEADERS | ACQUIRED | ENDPOINTS) for v in (1,)),
    *((rewrite, ApiKey.SHARE_ACKNOWLEDGE, v, PARTITIONS | LEADERS | ENDPOINTS) for v in (1,)),
    *((find_throttle, ApiKey.PRODUCE, v, PRODUCED) for v in range(9, 14)),
    *((find_throttle, ApiKey.API_VERSIONS, v, {"tags"} | KEYS) for v in (3, 4)),
    *((find_throttle, ApiKey.CREATE_DELEGATION_TOKEN, v, {"tags"}) for v in (2, 3)),
    *((find_throttle, ApiKey.DESCRIBE_DELEGATION_TOKEN, v, TOKENS) for v in (2, 3)),
    *((narrow, ApiKey.API_VERSIONS, v, KEYS) for v in (3, 4)),
    *((narrow, ApiKey.API_VERSIONS, v, {"api_keys"}) for v in (0, 1, 2)),
    *((learn_names, ApiKey.METADATA, v, NAMED) for v in range(10, 14)),
    (learn_brokers, ApiKey.METADATA, 1, {"brokers"}),
    *(
        (walk_fetch, ApiKey.FETCH, v, {"responses", "responses.partitions", min(ABORTED)})
        for v in range(4, 12)
    ),
    *((walk_fetch, ApiKey.FETCH, v, PARTITIONS | ABORTED) for v in range(12, 18)),
]  # fmt: skip


def least(reads: Callable[[int], object]) -> int:
    """Return the smallest budget with which the call raises no `BudgetError`."""
    low, high = 0, 1 << 12
    while low < high:
        middle = (low + high) // 2
        try:
            reads(middle)
        except BudgetError:
            low = middle + 1
        else:
            high = middle
    return low


@for_each(READERS)
def test_every_nested_count_of_a_reply_costs_budget(read, key, version, paths):
    """The walker of each reply pays for each element it passes, listed in the table, exactly once."""
    api = api_of(key, version)
    made = Maker(codec.response_shape(api))
    assert paths <= made.paid.keys()

    def reads(budget: int) -> None:
        for module in WITH_BUDGET:
            if hasattr(module, "REPLY_ELEMENT_BUDGET"):
                patches.setattr(module, "REPLY_ELEMENT_BUDGET", budget)
        read(api, bytes(made.out))

    with pytest.MonkeyPatch.context() as patches:
        assert least(reads) == sum(made.paid[path] for path in paths)


@for_each(range(3, 14))
def test_every_nested_count_of_a_produce_costs_budget(version):
    """Both walkers of requests charge for topics, partitions and the tags of every struct."""
    api = api_of(ApiKey.PRODUCE, version)
    made = Maker(codec.request_shape(api))
    body = bytes(made.out)
    needed = made.paid.total()
    assert needed == EACH + EACH**2 + (TAGS * (1 + EACH + EACH**2) if version >= 9 else 0)
    found = read_acks(body, 0, len(body), version)
    assert found is not None
    at = found[1] + 4
    assert (
        least(lambda budget: ProduceWalker(version, budget=budget).feed(body, 0, len(body)))
        == needed
    )
    assert least(lambda budget: pack_topics(body, at, len(body), version, budget)) == needed
    assert pack_topics(body, at, len(body), version, needed + 5)[1] == 5


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.ALTER_CLIENT_QUOTAS, 0),
        (ApiKey.ALTER_CLIENT_QUOTAS, 1),
        (ApiKey.DELETE_TOPICS, 1),
        (ApiKey.METADATA, 12),
        (ApiKey.CREATE_TOPICS, 7),
    ],
)
def test_every_nested_count_of_a_decoded_request_costs_budget(key, version):
    """The check before decoding charges for lists of structs, lists of values, and tags."""
    shape = codec.request_shape(api_of(key, version))
    made = Maker(shape)
    body = bytes(made.out)
    needed = least(lambda budget: schema.check(shape, body, 0, len(body), budget))
    assert needed == made.paid.total() > 0
