"""Bodies and batches from plain values: any API and version, topics in the shape of each, and clear errors."""

from uuid import UUID

import pytest
from kafka.record import MemoryRecords

from policies.api import FORWARD, Need
from policies.denial import Deny
from policies.testing import PolicyBench, record_batch
from policies.testing.message_builder import request_body, topic_fields
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known
from tests.support.plugins.topic_guard import TopicGuard
from wire.apis import Api, ApiKey
from wire.codec import decode_request, request_shape
from wire.errors import ErrorCode, WireError
from wire.topic_refs import TopicRef

IDS = {"orders": b"o" * 16, "stock": b"s" * 16}
NAMING = {
    *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_COMMIT),
    *(ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.CREATE_PARTITIONS),
    *(ApiKey.OFFSET_FETCH, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.DESCRIBE_CONFIGS),
}


@for_each([each for each in apis_known() if each.key in NAMING])
def test_topics_are_named_in_the_shape_of_every_version(api: Api) -> None:
    """By name, or by id where the version has no names."""
    fields = topic_fields(request_shape(api), {"orders": (0, 3), "stock": (1,)}, IDS)

    text = repr(decode_request(api, request_body(api, fields)))

    assert all(topic in text or str(UUID(bytes=IDS[topic])) in text for topic in IDS)


def test_what_does_not_fit_a_body_is_refused_by_its_name() -> None:
    """A field at any depth with the nearest name."""
    with pytest.raises(ValueError, match="HeartbeatRequest names no topics"):
        topic_fields(request_shape(api_of(ApiKey.HEARTBEAT, 4)), {"orders": (0,)}, IDS)

    api = api_of(ApiKey.METADATA, 12)
    with pytest.raises(ValueError, match=r"has no field 'nme'.*did you mean name"):
        request_body(api, {"topics": [{"nme": "orders"}]})

    with pytest.raises(WireError):
        request_body(api_of(ApiKey.HEARTBEAT, 4), {"group_id": 5})


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("size_bytes", [0, 1, 300_000])
def test_a_client_reads_the_records(compression: str, size_bytes: int) -> None:
    """Values, time and checksum are right, for every codec and for values of several blocks."""
    values = [b"v" * size_bytes, b"second"]

    data = record_batch(values, compression=compression, timestamp_ms=1_700_000_000_000)
    batch = MemoryRecords(data).next_batch()

    assert batch.validate_crc()
    assert [(each.value, each.timestamp) for each in batch] == [
        (value, 1_700_000_000_000) for value in values
    ]


def test_the_producer_is_in_the_head() -> None:
    """Its id, and whether the batch belongs to a transaction."""
    batch = MemoryRecords(record_batch([b"a"], producer_id=7, transactional=True)).next_batch()

    assert batch.producer_id == 7
    assert batch.is_transactional


def test_an_unknown_codec_is_refused() -> None:
    """The message lists the known ones."""
    with pytest.raises(ValueError, match="'brotli', expected one of none, gzip"):
        record_batch([b"a"], compression="brotli")


def test_a_guard_is_tested_by_names_and_by_ids() -> None:
    """Produce v13 and Fetch carry ids; the bench tells the host their names."""
    bench = PolicyBench(TopicGuard, {"denied": ["secret"]})
    refused = Deny({"secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    for api in ("Produce", "Fetch"):
        assert bench.ask(bench.request(api, topics=["orders"])) is FORWARD
        assert bench.ask(bench.request(api, topics=["orders", "secret"])) == refused
    request = bench.request("Produce", topics={"orders": [3, 4]})
    assert request.topics == (TopicRef("orders", bench.topic_id("orders"), (3, 4)),)


def test_an_id_is_unknown_until_it_is_told() -> None:
    """A guard must refuse it: it may be the id of a denied topic."""
    bench = PolicyBench(TopicGuard, {"denied": ["secret"]})
    bench.request("Produce", topics=["secret"])
    bench.host.topics.clear()
    body = bench.request("Produce", topics=["secret"]).sent_body
    bench.host.topics.clear()
    assert bench.policy.needs is Need.TOPICS
    unknown = Deny({bench.topic_id("secret"): ErrorCode.UNKNOWN_TOPIC_ID})
    bench.host.topics.clear()
    assert bench.ask(bench.request("Produce", body=body)) == unknown
