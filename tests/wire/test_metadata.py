"""Sluice's own Metadata request, its response, and topic names from other clients' responses."""

from dataclasses import replace
from datetime import timedelta
from itertools import product
from uuid import UUID

import pytest
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v1 import response as metadata1
from kio.schema.metadata.v12 import response as metadata12

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known, messages_of, survives
from wire import codec
from wire.apis import ApiKey
from wire.errors import WireError
from wire.metadata import (
    after_partitions,
    auto_creation_at,
    brokers_request,
    read_brokers,
    topic_names,
)
from wire.primitives import INT32, encode_compact_count

V1 = api_of(ApiKey.METADATA, 1)


def reply(*hosts: tuple[int, str, int]) -> bytes:
    listed = tuple(
        metadata1.MetadataResponseBroker(node_id=n, host=host, port=port, rack="r")
        for n, host, port in hosts
    )
    body = codec.encode(metadata1.MetadataResponse(brokers=listed, topics=()))
    return INT32.pack(len(body) + 4) + INT32.pack(5) + body


def test_the_request_is_kafkas():
    """kafka-python reads the request as Metadata v1 from client "sluice" for no topic."""
    frame = brokers_request(77)
    body = MetadataRequest.decode(frame, version=1, header=True, framed=True)
    header = body.header
    assert (header.request_api_key, header.request_api_version) == (3, 1)
    assert (header.client_id, header.correlation_id) == ("sluice", 77)
    assert body.topics == []  # an empty list is "none" from v1 on, null would be "all"


def test_the_response_names_brokers():
    """Brokers are returned by node id with their real host and port."""
    frame = reply((1, "kafka-1", 9092), (7, "10.0.0.7", 65535))
    assert read_brokers(frame) == {1: (b"kafka-1", 9092), 7: (b"10.0.0.7", 65535)}
    assert read_brokers(bytearray(frame)) == read_brokers(frame)


@pytest.mark.parametrize(
    "broker",
    [
        (1, "", 9092),
        (1, "kafka\0evil", 9092),
        (1, "kafka-1", 0),
        (1, "kafka-1", -1),
        (1, "kafka-1", 65536),
    ],
)
def test_a_response_with_an_address_that_cannot_be_dialled_is_refused(broker):
    """A broker without a host or with an impossible port is refused, not handed to a dialer."""
    with pytest.raises(WireError):
        read_brokers(reply(broker))


def test_a_cut_response_is_a_wire_error():
    """A response cut anywhere, or with a wrong size, is a WireError."""
    frame = reply((1, "kafka-1", 9092))
    for cut in range(len(frame)):
        with pytest.raises(WireError):
            read_brokers(frame[:cut])
    with pytest.raises(WireError):
        read_brokers(frame + b"\x00")


def partition(index: int, replicas=(1, 2, 3), isr=(1, 2, 3)):
    return metadata12.MetadataResponsePartition(
        error_code=ErrorCode.none,
        partition_index=index,
        leader_id=1,
        leader_epoch=4,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=(),
    )


def names_in(partitions) -> dict[bytes, str]:
    """Return the names of two topics, each with these partitions, among other bytes."""
    topics = tuple(
        metadata12.MetadataResponseTopic(
            error_code=ErrorCode.none, name=name, topic_id=UUID(int=n), partitions=partitions
        )
        for n, name in ((1, "orders"), (2, "payments"))
    )
    broker = metadata12.MetadataResponseBroker(node_id=1, host="kafka-1", port=9092, rack=None)
    body = codec.encode(
        metadata12.MetadataResponse(throttle_time=timedelta(0), brokers=(broker,), topics=topics)
    )
    buf = bytearray(b"xx" + body + b"\x05stale")
    return topic_names(buf, 2, 2 + len(body), api_of(ApiKey.METADATA, 12))


@pytest.mark.parametrize(
    "partitions",
    [
        (),
        (partition(0),),
        tuple(partition(n) for n in range(50)),
        tuple(partition(n, isr=(1, 2, 3)[: 1 + n % 3]) for n in range(20)),
        (*(partition(n) for n in range(9)), partition(9, isr=())),
        tuple(partition(n, replicas=tuple(range(200))) for n in range(3)),
    ],
    ids=["none", "one", "alike", "shrinking isr", "last differs", "200 replicas"],
)
def test_partitions_are_stepped_over(partitions):
    """Names are found after equal and different partitions."""
    assert names_in(partitions) == {
        UUID(int=1).bytes: "orders",
        UUID(int=2).bytes: "payments",
    }


def raw_partition(counts: tuple[int, ...], fill: bytes, tags: bytes = b"\x00") -> bytes:
    """Return a partition of v9+ with so many replicas, in-sync and offline ones; -1 is a null array."""
    arrays = (encode_compact_count(each) + fill * 4 * each for each in counts)
    return fill * 14 + b"".join(arrays) + tags


@for_each(product(product([-1, 0, 1, 3], repeat=3), [b"\x00", b"\x01", b"\xff"]))
def test_partitions_with_arrays_of_any_size_are_stepped_over(counts, fill):
    """Alone, among equal ones, and before one with a tag, or with another array where theirs is."""
    same, tagged = raw_partition(counts, fill), raw_partition(counts, fill, b"\x01\x05\x00")
    others = [raw_partition((*counts[:place], 2, *counts[place + 1 :]), fill) for place in range(3)]
    for row in (
        [same],
        [same] * 9,
        [same] * 3 + [tagged] + [same] * 3,
        *([same] * 3 + [other] for other in others),
        [same, *others] * 3,
    ):
        body = b"".join(row)
        buf, end = fill * 3 + body + fill * 99, 3 + len(body)
        assert after_partitions(buf, 3, end, len(row), 50) == (end, 50 - row.count(tagged))
        with pytest.raises(WireError):
            after_partitions(buf, 3, end - 1, len(row), 50)


@for_each([10, 11, 12, 13], examples=30)
def test_names_agree_with_the_codec(version, data):
    """Names and ids equal those that the codec reads; damaged bytes raise only WireError."""
    api = api_of(ApiKey.METADATA, version)
    message = data.draw(messages_of(codec.response_shape(api)))
    body = bytearray(codec.encode(message))
    topics = [t for t in message.topics if t.topic_id and t.name and len(t.name.encode()) <= 249]
    meant = {topic.topic_id.bytes: topic.name for topic in topics}
    assert topic_names(body, 0, len(body), api) == meant
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    survives(topic_names, body, 0, cut, api)


def test_topics_without_an_id_or_a_name_are_skipped():
    """Below v10 topics have no ids; v12 answers an unknown id with a null name."""
    assert topic_names(bytearray(), 0, 0, api_of(ApiKey.METADATA, 9)) == {}

    topic = metadata12.MetadataResponseTopic(
        error_code=ErrorCode.unknown_topic_id, name=None, topic_id=UUID(int=9), partitions=()
    )
    message = metadata12.MetadataResponse(
        throttle_time=timedelta(0), brokers=(), topics=(topic, replace(topic, name="b"))
    )
    body = bytearray(codec.encode(message))
    assert topic_names(body, 0, len(body), api_of(ApiKey.METADATA, 12)) == {UUID(int=9).bytes: "b"}


@for_each([a for a in apis_known() if a.key == 3 and a.version >= 4], examples=30)
def test_the_place_of_auto_creation_is_found(api, data):
    """The byte there is the field: another value of it changes nothing else. A body that ends before it is refused."""
    message = data.draw(messages_of(codec.request_shape(api)))
    body = bytearray(codec.encode(message))
    at = auto_creation_at(body, api.version)
    assert body[at] == message.allow_auto_topic_creation
    body[at] ^= 1
    other = replace(message, allow_auto_topic_creation=not message.allow_auto_topic_creation)
    assert codec.encode(other) == body
    with pytest.raises(WireError):
        auto_creation_at(body[:at], api.version)
