"""A Fetch reply that names new leaders after its records streams, and its client gets right addresses or none."""

from dataclasses import replace
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.api import FORWARD, Need
from policies.denial import Deny
from proxy.core.errors import CloseReason
from proxy.core.stats.topic_usage import TopicUsage
from tests.support.core.policies import Recorder, Silent
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.named_topics import asked
from tests.support.messages.record_batches import batch
from wire import codec
from wire.apis import ApiKey
from wire.errors import ErrorCode
from wire.schema import make_message

MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER
SHAPE = codec.response_shape(api_of(ApiKey.FETCH, 17))
TOPICS = SHAPE.item("responses")
PARTITIONS = TOPICS.item("partitions")
LEADER = PARTITIONS.field("current_leader").shape.type_
ENDPOINT = SHAPE.field("node_endpoints").shape.type_
REAL = ("kafka-1.real.internal", "k1", "kafka-1.very.long.name.of.a.broker.internal")
OURS = "127.0.0.1"
FETCH = f.request(1, 17, 7, bytes(40), tagged=True)


def reply(hosts=REAL[:1], *, partitions: int = 3, records: bytes = batch(5), aborted: bool = False):
    """A reply in which one partition has moved; the others have records."""
    led = {"current_leader": LEADER(leader_id=1, leader_epoch=3), "error_code": MOVED}
    values = [{"records": records} for _ in range(partitions)]
    values[1:2] = [led if hosts else values[0]]
    if aborted:
        one = PARTITIONS.field("aborted_transactions").shape.type_(producer_id=1, first_offset=2)
        values[0]["aborted_transactions"] = (one,) * 3
    made = tuple(make_message(PARTITIONS, each.pop("error_code", 0), each) for each in values)
    topic = make_message(TOPICS, 0, {"topic_id": None, "partitions": made})
    nodes = tuple(
        ENDPOINT(node_id=node, host=host, port=9092, rack="r") for node, host in enumerate(hosts)
    )
    return make_message(SHAPE, 0, {"responses": (topic,), "node_endpoints": nodes})


def frame_of(message) -> bytes:
    return f.reply(7, codec.encode(message), tagged=True)


def told(message):
    """What a client should be told: Sluice's address of each node."""
    nodes = tuple(replace(n, host=OURS, port=19093 + n.node_id) for n in message.node_endpoints)
    return replace(message, node_endpoints=nodes)


def decoded(frame: bytes):
    return codec.decode_response(api_of(ApiKey.FETCH, 17), frame[9:])


def engines():
    """With and without what reads or hears of replies."""
    yield make_engine()
    yield make_engine([Silent()])
    yield make_engine([Recorder(lambda _: FORWARD)])
    yield make_engine(topic_usage=TopicUsage())
    yield make_engine([Silent()], topic_usage=TopicUsage())


def played(engine, stream: bytes, chunk: int, requests: bytes = FETCH, count: int = 1) -> Wire:
    """Let a client fetch, and a broker answer with these bytes."""
    wire = Wire(engine)
    for _ in range(count):
        wire.client(requests)
    wire.broker(stream, chunk)
    return wire


@pytest.mark.parametrize("chunk", [1 << 18, 1, 7, 100])
@pytest.mark.parametrize("hosts", [REAL[:1], REAL[2:], REAL, REAL[1:2], ()])
@pytest.mark.parametrize("aborted", [False, True])
def test_a_client_learns_sluices_address_of_a_new_leader_or_none(chunk, hosts, aborted):
    """A whole reply has the addresses. One that streams keeps its size, so that longer addresses are left out."""
    message = reply(hosts, aborted=aborted)
    frame = frame_of(message)
    for engine in engines():
        wire = played(engine, 2 * frame, chunk, count=2)
        assert not wire.session.ended
        first, second = f.split(wire.to_client)
        assert first == second
        if len(frame) <= chunk:
            assert decoded(first) == told(message)
        else:
            assert len(first) == len(frame)
            fits = len(frame_of(told(message))) <= len(frame)
            expected = told(message) if fits else replace(message, node_endpoints=())
            assert decoded(first) == expected
        assert wire.held_bytes == 0
        wire.release()


@given(st.data())
def test_any_cut_gives_the_same_bytes_as_any_other(data):
    """Of replies with and without endpoints, one behind the other."""
    messages = data.draw(
        st.lists(
            st.builds(
                reply,
                st.sampled_from([(), (), REAL[:1], REAL[1:2], REAL[2:]]),
                partitions=st.integers(2, 5),
                records=st.sampled_from([b"", batch(3), bytes(3000)]),
            ),
            min_size=1,
            max_size=4,
        )
    )
    stream = b"".join(map(frame_of, messages))
    usage = data.draw(st.booleans())
    cuts = sorted({0, len(stream), *data.draw(st.lists(st.integers(0, len(stream)), max_size=9))})
    outcomes = []
    for places in (cuts, range(len(stream) + 1)):
        wire = Wire(make_engine(topic_usage=TopicUsage()) if usage else make_engine())
        wire.client(FETCH * len(messages))
        for start, end in pairwise(places):
            wire.broker(stream[start:end])
        assert not wire.session.ended
        frames = f.split(wire.to_client)
        assert len(frames) == len(messages)
        outcomes.append(frames)
        for message, frame in zip(messages, frames, strict=True):
            assert decoded(frame) in (told(message), replace(message, node_endpoints=()))
    for message, frame in zip(messages, outcomes[1], strict=True):
        assert len(frame) == len(frame_of(message))


def test_records_stream_and_only_the_last_tags_are_kept():
    """The client has all before them, and no memory is taken."""
    frame = frame_of(reply(records=bytes(100_000)))
    tags = len(frame) - frame.rindex(b"\x01\x00")  # the number of tags, and the first
    wire = Wire()
    wire.client(FETCH)
    at = len(frame) - tags
    wire.broker(frame[:at], 30_000)
    assert wire.to_client == frame[:at]
    assert wire.held_bytes == 0
    wire.broker(frame[at : at + 5])
    assert wire.to_client == frame[:at]
    assert wire.held_bytes == 5
    wire.broker(frame[at + 5 :])
    assert len(wire.to_client) == len(frame)
    assert wire.held_bytes == 0


@pytest.mark.parametrize("chunk", [1 << 18, 1, 7, 100])
def test_a_reply_to_which_denied_topics_are_joined_names_sluices_addresses(chunk):
    """Its first part grows, and its last tags are rewritten."""
    shape = codec.request_shape(api_of(ApiKey.FETCH, 17)).item("topics")
    one = make_message(shape.item("partitions"), 0, {"partition": 3})
    ids = [UUID(int=n) for n in (5, 6)]
    topics = tuple(make_message(shape, 0, {"topic_id": i, "partitions": (one,)}) for i in ids)
    denial = Deny({ids[0].bytes: ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    wire = Wire(make_engine([Recorder(lambda _: denial, needs=Need.TOPICS, apis={ApiKey.FETCH})]))
    wire.client(asked(1, 17, topics=topics))
    message = reply()
    wire.broker(f.reply(1, codec.encode(message), tagged=True), chunk)
    got = decoded(wire.to_client)
    denied, *rest = got.responses
    assert denied.topic_id == ids[0]
    assert tuple(rest) == message.responses
    assert got.node_endpoints == told(message).node_endpoints
    assert wire.held_bytes == 0


def test_a_reply_whose_topics_cannot_be_read_ends_the_session():
    """Brokers could follow them. What had come before is delivered."""
    frame = bytearray(frame_of(reply(records=bytes(1000))))
    frame[19] = 0xFF  # the number of topics
    frame[20:24] = b"\xff" * 4
    wire = played(make_engine(), bytes(frame), 100)
    assert wire.session.reason is CloseReason.BROKER_PROTOCOL
    for real in REAL:
        assert real.encode() not in wire.to_client
