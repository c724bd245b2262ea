"""Deny: the rest of a request reaches the broker, and the client gets one reply for all of it."""

import struct
from datetime import timedelta
from itertools import product
from uuid import UUID

import pytest

from policies.api import Forward, Need, Outcome, Patch, Throttle
from policies.denial import Deny
from policies.division import tells_more
from proxy.core.errors import CloseReason
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known
from wire import codec, replies
from wire.apis import ApiKey
from wire.errors import ErrorCode
from wire.schema import make_message

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
LATER = ErrorCode.POLICY_VIOLATION
IDS = {text: struct.pack(">16s", text.encode()) for text in ("good", "bad", "worse")}
DIVIDED = {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.OFFSET_COMMIT,
}
"""All that are: `test_denied_items`."""
VERSIONS = [api for api in apis_known() if api.key in DIVIDED]
DATA = [api for api in VERSIONS if api.key in {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT}]
NUMBERS = ("partition_index", "partition", "index")
ARRAYS = {ApiKey.PRODUCE: "topic_data", ApiKey.DELETE_TOPICS: "topics"}


def denying(codes, **options):
    """A chain of one policy that denies these, and the engine knows all names."""
    options = {"needs": Need.TOPICS, **options}
    engine = make_engine([Recorder(lambda _: Deny(codes), **options)])
    engine.rewrites.learn({topic_id: text for text, topic_id in IDS.items()})
    return Wire(engine)


def body(api, topics):
    """A request body that names {topic: partitions}, each partition with a recognisable value."""
    shape = codec.request_shape(api)
    array = ARRAYS.get(api.key, "topics")
    if api.key == ApiKey.DELETE_TOPICS and api.version < 6:
        return codec.encode(make_message(shape, 0, {"topic_names": tuple(topics)}))
    field = shape.field(array)
    items = []
    for text, partitions in topics.items():
        values = {}
        if api.key == ApiKey.METADATA or field.shape.field("topic_id") is None:
            values |= {n: text for n in ("name", "topic") if field.shape.field(n)}
        elif field.shape.field("topic_id") is not None:
            values["topic_id"] = UUID(bytes=IDS[text])
        for inner in field.shape.untagged:
            if inner.name in {"partitions", "partition_data"} and inner.shape is not None:
                number = next(n for n in NUMBERS if inner.shape.field(n))
                each = {"records": f"{text} records".encode()} if api.key == ApiKey.PRODUCE else {}
                values[inner.name] = tuple(
                    make_message(inner.shape, 0, {number: p, **each}) for p in partitions
                )
        items.append(make_message(field.shape, 0, values))
    acks = {}
    if api.key == ApiKey.PRODUCE:
        key = "timeout_ms" if shape.field("timeout_ms") else "timeout"
        acks = {"acks": -1, key: timedelta(milliseconds=30_000)}
    return codec.encode(make_message(shape, 0, {array: tuple(items), **acks}))


def asked(api, topics, number=1):
    """The request frame."""
    return f.request(api.key, api.version, number, body(api, topics), tagged=api.flexible)


def answered(api, topics, code, number=1):
    """The reply frame in which each item has this code."""
    made = replies.error_body(api, body(api, topics), code)
    return f.reply(number, made, tagged=bool(api.response_header_version))


def codes(api, frame):
    """Error code by (topic, partition) of a reply frame, and by topic where it has no partitions."""
    at = 9 if api.response_header_version else 8
    reply = codec.decode_response(api, frame[at:])
    found = {}
    items = getattr(reply, "responses", None)
    for item in reply.topics if items is None else items:
        text = getattr(item, "name", None) or getattr(item, "topic", None)
        if text is None:
            text = next(t for t, i in IDS.items() if i == item.topic_id.bytes)
        inner = getattr(item, "partitions", None) or getattr(item, "partition_responses", None)
        if api.key in {ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS}:
            found[text] = int(item.error_code)
            continue
        for each in inner or ():
            number = next(getattr(each, n) for n in NUMBERS if hasattr(each, n))
            found[text, number] = int(each.error_code)
    return found


def partitions_of(api, topics, code):
    """The codes that `codes` finds if each item has this code."""
    if api.key in {ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS}:
        return dict.fromkeys(topics, code)
    return {(text, p): code for text, listed in topics.items() for p in listed}


@for_each(product(VERSIONS, [1 << 18, 5]))
def test_the_rest_is_forwarded_and_the_reply_is_joined(api, chunk):
    """The broker gets the bytes of the other topics; the client gets codes for all of them."""
    wire = denying({"bad": DENIED, "worse": LATER})
    good = {"good": [3, 4]}
    wire.client(asked(api, {"bad": [0, 1], **good, "worse": [7]}), chunk)
    assert wire.to_broker == asked(api, good)
    for start in range(
        0, len(reply := answered(api, good, ErrorCode.NOT_LEADER_OR_FOLLOWER)), chunk
    ):
        wire.broker(reply[start : start + chunk])
    expected = partitions_of(api, good, 6) | partitions_of(api, {"bad": [0, 1]}, DENIED)
    assert codes(api, wire.to_client) == expected | partitions_of(api, {"worse": [7]}, LATER)
    assert len(f.whole_frames(wire.to_client)) == 1
    assert wire.engine.request_pool.used_bytes == wire.engine.reply_pool.used_bytes == 0


@for_each(api for api in VERSIONS if not tells_more(api))
def test_a_request_of_which_nothing_is_left_is_answered_here(api):
    """With the codes of each, and the broker hears nothing."""
    wire = denying({"bad": DENIED, "worse": LATER})
    wire.client(asked(api, {"bad": [0], "worse": [7, 8]}))
    assert wire.to_broker == b""
    expected = partitions_of(api, {"bad": [0]}, DENIED)
    assert codes(api, wire.to_client) == expected | partitions_of(api, {"worse": [7, 8]}, LATER)
    assert wire.engine.request_pool.used_bytes == wire.engine.reply_pool.used_bytes == 0


@for_each(DATA)
def test_single_partitions_are_denied(api):
    """The topic's other partitions are forwarded."""
    wire = denying({("good", 3): DENIED})
    wire.client(asked(api, {"good": [3, 4, 5], "bad": [3]}))
    assert wire.to_broker == asked(api, {"good": [4, 5], "bad": [3]})
    wire.broker(answered(api, {"good": [4, 5], "bad": [3]}, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert codes(api, wire.to_client) == {
        ("good", 3): DENIED, ("good", 4): 6, ("good", 5): 6, ("bad", 3): 6,
    }  # fmt: skip


@for_each(VERSIONS)
def test_a_denial_of_other_topics_changes_nothing(api):
    """The request passes byte for byte, and so does its reply."""
    wire = denying({"worse": DENIED, ("good", 9): DENIED})
    wire.client(asked(api, {"good": [3], "bad": [0]}))
    assert wire.to_broker == asked(api, {"good": [3], "bad": [0]})


def test_a_produce_without_reply_ends_the_connection_after_the_rest():
    """As a broker does it for acks=0: the client learns that something is wrong."""
    api = api_of(ApiKey.PRODUCE, 9)
    all_acks, no_acks = b"\xff\xff\x00\x00\x75\x30", b"\x00\x00\x00\x00\x75\x30"
    wire = denying({"bad": DENIED})
    wire.client(asked(api, {"good": [3], "bad": [0]}).replace(all_acks, no_acks))
    assert wire.to_broker == asked(api, {"good": [3]}).replace(all_acks, no_acks)
    assert (wire.to_client, wire.session.reason) == (b"", CloseReason.POLICY)


@pytest.mark.parametrize("chunk", [1 << 18, 5])
@pytest.mark.parametrize("bad", [["bad"], ["bad", "good"]])
def test_no_write_overtakes_a_denied_part_that_the_client_sends_again(bad, chunk):
    """The connection ends after the reply, with or without a rest for the broker."""
    api = api_of(ApiKey.PRODUCE, 9)
    wire = denying(dict.fromkeys(bad, ErrorCode.UNKNOWN_TOPIC_ID) | {"worse": DENIED})
    topics = {"good": [3], "bad": [0], "worse": [0]}
    wire.client(asked(api, topics) + asked(api, {"good": [4]}, 2), chunk)
    rest = asked(api, {"good": [3]}) if "good" not in bad else b""
    assert wire.to_broker == rest
    if rest:
        assert not wire.session.ended
        wire.broker(answered(api, {"good": [3]}, ErrorCode.NONE))
    assert len(codes(api, wire.to_client)) == len(topics)
    assert (wire.session.ended, wire.session.reason) == (True, CloseReason.POLICY)


def test_replies_stay_in_order():
    """Also those of requests without a denied part, before and after."""
    wire = denying({"bad": DENIED}, apis={ApiKey.FETCH})
    api = api_of(ApiKey.FETCH, 12)
    wire.client(f.beat(1) + asked(api, {"good": [1], "bad": [0]}, 2) + asked(api, {"bad": [0]}, 3))
    wire.client(f.beat(4))
    assert wire.to_client == b""
    wire.broker(f.beat_reply(1) + answered(api, {"good": [1]}, 6, 2) + f.beat_reply(4))
    frames = f.whole_frames(wire.to_client)
    assert [f.correlation_id(each) for each in frames] == [1, 2, 3, 4]
    assert codes(api, frames[1]) == {("good", 1): 6, ("bad", 0): DENIED}
    assert codes(api, frames[2]) == {("bad", 0): DENIED}


def test_the_denials_of_several_policies_are_joined():
    """The first one counts for a topic; a throttle and a patch of others apply as well."""
    api = api_of(ApiKey.FETCH, 12)
    offset = 12  # max_bytes
    first = Recorder(lambda _: Deny({"bad": DENIED}, "no"), needs=Need.TOPICS)
    patch = Forward((Patch(offset, b"\x00\x00\x00\x05"),))
    second = Recorder(lambda _: Throttle(70, patch), needs=Need.HEAD)
    third = Recorder(
        lambda _: Throttle(40, Deny({"bad": LATER, "worse": LATER})), needs=Need.TOPICS
    )
    wire = Wire(make_engine([first, second, third]))
    wire.client(asked(api, {"good": [1], "bad": [0], "worse": [0]}))
    rest = bytearray(asked(api, {"good": [1]}))
    start = len(rest) - len(body(api, {"good": [1]}))
    rest[start + offset : start + offset + 4] = b"\x00\x00\x00\x05"
    assert wire.to_broker == bytes(rest)
    wire.broker(answered(api, {"good": [1]}, 6))
    assert codes(api, wire.to_client) == {
        ("good", 1): 6, ("bad", 0): DENIED, ("worse", 0): LATER,
    }  # fmt: skip
    reply = codec.decode_response(api, wire.to_client[9:])
    assert reply.throttle_time.total_seconds() == 0.07
    assert [p.completed for p in (first, second, third)] == [[(1, Outcome.REPLIED)]] * 3


def test_an_api_that_cannot_be_divided_is_refused_whole():
    """ElectLeaders of a denied topic, where Kafka demands a right on the cluster; without a denied topic it passes."""
    api = api_of(ApiKey.ELECT_LEADERS, 2)
    shape = codec.request_shape(api)

    def electing(number, *topics):
        inner = shape.field("topic_partitions").shape
        named = tuple(make_message(inner, 0, {"topic": t, "partitions": (1,)}) for t in topics)
        made = codec.encode(make_message(shape, 0, {"topic_partitions": named}))
        return f.request(api.key, api.version, number, made, tagged=True)

    wire = denying({"bad": DENIED})
    wire.client(electing(1, "good") + electing(2, "good", "bad"))
    assert wire.to_broker == electing(1, "good")
    nothing = codec.encode(make_message(codec.response_shape(api), 0))
    wire.broker(f.reply(1, nothing, tagged=True))
    reply = codec.decode_response(api, f.whole_frames(wire.to_client)[1][9:])
    assert reply.error_code == DENIED
    assert [each.topic for each in reply.replica_election_results] == ["good", "bad"]


def test_a_denial_without_the_topics_is_the_policys_fault():
    """A policy that does not need topics would not see one that is named by its id."""
    wire = denying({"bad": DENIED}, needs=Need.BODY)
    wire.client(f.produce(1, topic="bad"))
    assert wire.to_broker == b""
    assert wire.session.reason is CloseReason.POLICY_FAULT


def test_a_produce_that_the_broker_leaves_unanswered_is_answered_for_all():
    """The reply made at its deadline names what was refused, too."""
    api = api_of(ApiKey.PRODUCE, 9)
    wire = denying({"bad": DENIED})
    wire.client(asked(api, {"good": [3], "bad": [0]}))
    wire.advance(600_000)
    got = codes(api, wire.to_client)
    assert got == {("good", 3): ErrorCode.REQUEST_TIMED_OUT, ("bad", 0): DENIED}
    assert wire.engine.request_pool.used_bytes == 0


@pytest.mark.parametrize("side", ["client", "broker"])
def test_what_is_counted_for_a_joined_reply_is_given_back_when_a_side_is_lost(side):
    """The request completes once."""
    wire = denying({"bad": DENIED})
    wire.client(asked(api_of(ApiKey.FETCH, 12), {"good": [3], "bad": [0]}))
    assert wire.engine.request_pool.used_bytes > 0
    if side == "client":
        wire.session.client_lost(wire.engine.now_ms)
    else:
        wire.session.broker_gone(CloseReason.BROKER_CLOSED, wire.engine.now_ms)
    wire.session.release(wire.engine.now_ms)
    assert wire.engine.request_pool.used_bytes == 0
