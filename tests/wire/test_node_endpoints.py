"""NodeEndpoints are found after any topics and rewritten inside their tag; nothing else changes."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17 import response as fetch17
from kio.schema.produce.v12 import response as produce12
from kio.schema.share_acknowledge.v1 import response as ack1
from kio.schema.share_fetch.v1 import response as share1

from tests.support.messages.kafka_messages import api_of, with_unknown_tag
from tests.support.messages.produce_replies import TOPIC_ID, VERSIONS, produced
from wire import codec
from wire.addresses import rewriter
from wire.apis import ApiKey
from wire.errors import WireError
from wire.node_endpoints import fitted
from wire.primitives import spend_tags

HEAD_BYTES = 11
"""Of a Fetch reply without topics: its throttle time, error, session and their number."""
MOVED = ErrorCode.not_leader_or_follower
NODES = [(1, "kafka-1.real", 9092), (2, "k" * 200, 9093), (3, "kafka-3.real", 9094)]


def by_id(node_id: int, *_) -> tuple[bytes, int]:
    return b"127.0.0.1", 19093 + node_id


def never(*_):
    raise AssertionError("nothing to ask")


def endpoints(module):
    return tuple(module.NodeEndpoint(node_id=n, host=h, port=p, rack="r") for n, h, p in NODES)


def told(message):
    """Return the message as the client should read it."""
    nodes = tuple(replace(n, host="127.0.0.1", port=19093 + n.node_id)
                  for n in message.node_endpoints)  # fmt: skip
    return replace(message, node_endpoints=nodes)


def rewritten(key, version, body: bytes, advertise=by_id) -> bytes | None:
    buf = bytearray(b"xx" + body + b"\x02\x00\x01stale")
    return rewriter(api_of(key, version))(buf, 2, 2 + len(body), advertise)


@pytest.mark.parametrize(("module", "version"), VERSIONS)
@pytest.mark.parametrize(("topics", "partitions"), [(1, 1), (3, 2), (0, 0), (1, 0)])
def test_every_endpoint_of_a_produce_reply_is_rewritten(module, version, topics, partitions):
    """Several endpoints are all rewritten; CurrentLeader in the partitions is kept."""
    message = produced(
        module, error=MOVED, nodes=endpoints(module), topics=topics, partitions=partitions
    )
    new = rewritten(ApiKey.PRODUCE, version, codec.encode(message))
    assert codec.decode_response(api_of(ApiKey.PRODUCE, version), new) == told(message)


@pytest.mark.parametrize(("module", "version"), VERSIONS)
@pytest.mark.parametrize("error", [ErrorCode.none, MOVED])
@pytest.mark.parametrize(("topics", "partitions"), [(1, 1), (3, 2), (0, 0), (1, 0)])
def test_a_produce_reply_without_endpoints_is_unchanged(module, version, error, topics, partitions):
    """A reply without NodeEndpoints looks up no address and does not change."""
    message = produced(module, error=error, topics=topics, partitions=partitions)
    assert rewritten(ApiKey.PRODUCE, version, codec.encode(message), never) is None


def test_a_two_byte_name_size_is_not_mistaken_for_the_quick_shape():
    """A reply whose name size takes two bytes is not recognised as a short one, one byte off."""
    topic = produced(produce12, nodes=endpoints(produce12)[:1], partitions=0).responses[0]
    for size in range(120, 140):
        message = produce12.ProduceResponse(
            responses=(replace(topic, name="n" * size),), node_endpoints=endpoints(produce12)[:1]
        )
        new = rewritten(ApiKey.PRODUCE, 12, codec.encode(message))
        assert codec.decode_response(api_of(ApiKey.PRODUCE, 12), new) == told(message)


def test_unknown_tags_pass():
    """Tags after NodeEndpoints are kept, in order, byte for byte."""
    message = produced(produce12, error=MOVED, nodes=endpoints(produce12))
    plain = codec.encode(produced(produce12, error=MOVED))
    body = with_unknown_tag(codec.encode(message), len(plain) - 1)
    new = rewritten(ApiKey.PRODUCE, 12, body)
    assert new == with_unknown_tag(codec.encode(told(message)), len(plain) - 1)
    assert rewritten(ApiKey.PRODUCE, 12, with_unknown_tag(plain, len(plain) - 1), never) is None


def test_bytes_after_the_tags_or_inside_one_are_malformed():
    """Bytes after the last tag section, or after the list in its tagged field, could hide an address."""
    plain = codec.encode(produced(produce12))
    moved = codec.encode(produced(produce12, error=MOVED, nodes=endpoints(produce12)))
    for body in (plain + b"\x00", moved + b"\x00", plain[:-1] + b"\x01\x00\x03\x01\x00\x00"):
        with pytest.raises(WireError):
            rewritten(ApiKey.PRODUCE, 12, body)


def test_endpoints_of_a_fetch_are_found_after_records():
    """Fetch v16+ is walked across records and aborted transactions to its endpoints."""
    partition = fetch17.PartitionData(
        partition_index=0,
        error_code=MOVED,
        high_watermark=9,
        current_leader=fetch17.LeaderIdAndEpoch(leader_id=2, leader_epoch=5),
        aborted_transactions=(fetch17.AbortedTransaction(producer_id=1, first_offset=2),),
        records=b"r" * 5000,
    )
    topic = fetch17.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=(partition,) * 3)
    message = fetch17.FetchResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        responses=(topic, topic),
        node_endpoints=endpoints(fetch17),
    )
    new = rewritten(ApiKey.FETCH, 17, codec.encode(message))
    assert codec.decode_response(api_of(ApiKey.FETCH, 17), new) == told(message)


HOSTS = st.sampled_from(["k", "127.0.0.1", "kafka-1.real", "k" * 60, "k" * 126, "k" * 200])
ENDPOINTS = st.lists(
    st.builds(fetch17.NodeEndpoint, node_id=st.integers(0, 9), host=HOSTS, port=st.just(9092),
              rack=st.sampled_from([None, "", "r" * 130])),
    max_size=4,
)  # fmt: skip


@given(ENDPOINTS, st.integers(1, 140), st.booleans(), st.booleans())
def test_the_last_tags_of_a_streamed_fetch_keep_their_size(nodes, length, adds_tag, is_same):
    """The client gets the right addresses, or none where they need more bytes; other tags stay."""
    told_host = "s" * length

    def advertise(node_id: int, host: bytes, port: int) -> tuple[bytes, int]:
        return (host, port) if is_same else (told_host.encode(), 19093 + node_id)

    def body_of(endpoints) -> bytes:
        body = codec.encode(
            fetch17.FetchResponse(
                throttle_time=timedelta(0),
                error_code=ErrorCode.none,
                responses=(),
                node_endpoints=tuple(endpoints),
            )
        )
        return with_unknown_tag(body, HEAD_BYTES) if adds_tag else body

    body = body_of(nodes)
    new = fitted(body[HEAD_BYTES:], advertise)
    assert len(new) == len(body) - HEAD_BYTES
    after, _ = spend_tags(new, 0, len(new), 100)
    assert after == len(new)
    assert not adds_tag or b"\x03new" in new
    told = [
        each if is_same else replace(each, host=told_host, port=19093 + each.node_id)
        for each in nodes
    ]
    decoded = codec.decode_response(api_of(ApiKey.FETCH, 17), body[:HEAD_BYTES] + new)
    fits = len(body_of(told)) <= len(body)
    assert list(decoded.node_endpoints) == (told if fits else [])


@pytest.mark.parametrize("tags", ["00 00", "01 00 03 01 00 00", "01 00 02 02 00", "01", "41"])
def test_last_tags_that_are_malformed_are_a_wire_error(tags):
    """They could hide an address."""
    with pytest.raises(WireError):
        fitted(bytes.fromhex(tags), by_id)


def share_fetched():
    partition = share1.PartitionData(
        partition_index=0,
        error_code=MOVED,
        acknowledge_error_code=0,
        current_leader=share1.LeaderIdAndEpoch(leader_id=2, leader_epoch=5),
        records=b"r" * 300,
        acquired_records=(share1.AcquiredRecords(first_offset=0, last_offset=9, delivery_count=1),),
    )
    topic = share1.ShareFetchableTopicResponse(topic_id=TOPIC_ID, partitions=(partition,) * 2)
    return share1.ShareFetchResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        acquisition_lock_timeout=timedelta(seconds=30),
        responses=(topic,),
        node_endpoints=endpoints(share1),
    )


def test_share_fetch_of_the_early_access():
    """ShareFetch v0 lacks the acquisition lock timeout (bytes 7 to 11) and is rewritten too."""
    body, meant = (codec.encode(m) for m in (share_fetched(), told(share_fetched())))
    new = rewritten(ApiKey.SHARE_FETCH, 0, body[:7] + body[11:])
    assert new == meant[:7] + meant[11:]
    with pytest.raises(WireError, match="1 bytes follow"):
        rewritten(ApiKey.SHARE_FETCH, 1, body + b"\x00")


def test_share_acknowledge_of_the_early_access():
    """ShareAcknowledge v0 has the layout of v1."""
    partition = ack1.PartitionData(
        partition_index=0,
        error_code=MOVED,
        current_leader=ack1.LeaderIdAndEpoch(leader_id=2, leader_epoch=5),
    )
    topic = ack1.ShareAcknowledgeTopicResponse(topic_id=TOPIC_ID, partitions=(partition,))
    message = ack1.ShareAcknowledgeResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        responses=(topic,),
        node_endpoints=endpoints(ack1),
    )
    new = rewritten(ApiKey.SHARE_ACKNOWLEDGE, 0, codec.encode(message))
    assert new == codec.encode(told(message))
