"""Error replies: every API refuses in its own shape, with a code for each item of the request."""

import struct
from dataclasses import fields
from datetime import timedelta

import pytest
from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import (
    api_of,
    apis_known,
    asking,
    messages_of,
    refused,
    structs,
    survives,
)
from wire import codec
from wire.apis import BY_KEY_AND_VERSION, ApiKey
from wire.errors import ErrorCode, WireError
from wire.replies import MAX_REFUSED_ELEMENTS, error_body
from wire.schema import make_message

CODE = int(ErrorCode.POLICY_VIOLATION)
AT_THE_TOP = {ApiKey.FETCH: (0,), ApiKey.METADATA: (0,)}
"""APIs whose field at the top says something else than the refusal of topics."""
WORDS = "refused by policy limits of Sluice: it is forbidden here"


def codes(message: object) -> list[int]:
    """Return every error code in a message."""
    return [
        int(getattr(struct, field.name))
        for struct in structs(message)
        for field in fields(struct)
        if field.name in {"error_code", "partition_error_code"}
    ]


def texts(message: object) -> list[tuple[int, str | None]]:
    """Return error code and message of each struct that has both."""
    found = []
    for each in structs(message):
        names = {field.name for field in fields(each)}
        if {"error_code", "error_message"} <= names:
            found.append((int(each.error_code), each.error_message))
    return found


@for_each(apis_known())
def test_every_api_carries_the_code(api):
    """Each code in the reply is the refusal's or none; the message stands beside each where Kafka has a field."""
    body = codec.encode(asking(codec.request_shape(api)))
    reply = codec.decode_response(api, error_body(api, body, CODE, WORDS))
    found = codes(reply)
    assert CODE in found
    assert set(found) <= {CODE, *AT_THE_TOP.get(api.key, ())}
    said = texts(reply)
    assert said == [(CODE, WORDS)] * len(said)
    silent = texts(codec.decode_response(api, error_body(api, body, CODE)))
    assert [code for code, _ in silent] == [code for code, _ in said]
    assert {text for _, text in silent} <= {None, ""}


@pytest.mark.parametrize(
    ("key", "version", "times"),
    [
        (ApiKey.PRODUCE, 8, 4),
        (ApiKey.CREATE_TOPICS, 2, 2),
        (ApiKey.DELETE_TOPICS, 4, 0),
        (ApiKey.DELETE_TOPICS, 5, 2),
        (ApiKey.ALTER_CLIENT_QUOTAS, 0, 2),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 5),
        (ApiKey.DELETE_GROUPS, 2, 0),
    ],
)
def test_these_apis_have_a_message_field(key, version, times):
    """The message stands once for each item of the request, and once at the top where Kafka has a field there."""
    api = api_of(key, version)
    body = codec.encode(asking(codec.request_shape(api)))
    said = texts(codec.decode_response(api, error_body(api, body, CODE, WORDS)))
    assert [text for _, text in said if text == WORDS] == [WORDS] * times


@for_each(apis_known(), examples=2)
def test_any_request_can_be_refused(api, data):
    """A reply to any request decodes; damaged requests raise only WireError."""
    body = bytearray(codec.encode(data.draw(messages_of(codec.request_shape(api)))))
    reply = codec.decode_response(api, error_body(api, bytes(body), CODE))
    own = {0, int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)} if api.key in AT_THE_TOP else set()
    assert set(codes(reply)) <= {CODE} | own
    assert getattr(reply, "throttle_time", timedelta(0)) == timedelta(0)
    if body:
        body[data.draw(st.integers(0, len(body) - 1))] ^= 0x81
        survives(error_body, api, bytes(body), CODE)


@for_each([a for a in BY_KEY_AND_VERSION.values() if not codec.is_known(a)])
def test_unknown_versions_have_no_reply(api):
    """A version that the codec does not know raises, so that the caller closes."""
    with pytest.raises(WireError):
        error_body(api, b"", CODE)


@for_each(range(3, 14))
def test_produce(version):
    """Each partition of the request is answered with the code and unknown offsets."""
    reply = refused(ApiKey.PRODUCE, version)
    assert len(reply.responses) == 2
    for topic in reply.responses:
        assert getattr(topic, "name", "the name") == "the name"
        assert [p.error_code for p in topic.partition_responses] == [CODE, CODE]
        assert {p.base_offset for p in topic.partition_responses} == {-1}


def test_list_offsets_does_not_echo_the_timestamp():
    """The timestamp of the request is not repeated: unknown is -1."""
    shape = codec.request_shape(api_of(ApiKey.LIST_OFFSETS, 7))
    partition = make_message(shape.field("topics").shape.field("partitions").shape, 0,
                      {"partition_index": 3, "timestamp": 12345})  # fmt: skip
    topic = make_message(shape.field("topics").shape, 0, {"name": "a", "partitions": (partition,)})
    reply = refused(ApiKey.LIST_OFFSETS, 7, make_message(shape, 0, {"topics": (topic,)}))
    answered = reply.topics[0].partitions[0]
    assert (answered.partition_index, answered.timestamp, answered.offset) == (3, -1, -1)


def test_metadata_of_all_topics():
    """Null topics mean all: there is no topic to carry the code."""
    for version, found in ((12, []), (13, [0])):
        shape = codec.request_shape(api_of(ApiKey.METADATA, version))
        assert (
            codes(refused(ApiKey.METADATA, version, make_message(shape, 0, {"topics": None})))
            == found
        )


def test_offset_fetch_in_its_three_shapes():
    """The code stands at each partition (v1), at the top (v2 to v7) or at each group (v8+)."""
    assert codes(refused(ApiKey.OFFSET_FETCH, 1)) == [CODE] * 4
    assert refused(ApiKey.OFFSET_FETCH, 1).topics[0].partitions[0].committed_offset == -1
    assert codes(refused(ApiKey.OFFSET_FETCH, 7)) == [CODE]
    assert refused(ApiKey.OFFSET_FETCH, 7).topics == ()
    assert codes(refused(ApiKey.OFFSET_FETCH, 8)) == [CODE] * 2


def test_find_coordinator_names_no_node():
    """A refused FindCoordinator gives node -1, no host and port -1."""
    older = refused(ApiKey.FIND_COORDINATOR, 3)
    assert (older.node_id, older.host, older.port) == (-1, "", -1)
    newer = refused(ApiKey.FIND_COORDINATOR, 4)
    assert [(c.key, c.node_id, c.host, c.port) for c in newer.coordinators] == [
        ("a", -1, "", -1),
        ("b", -1, "", -1),
    ]


def test_items_are_answered_one_by_one():
    """Lists of strings and numbers by name; AlterReplicaLogDirs asks by directory and answers by topic."""
    assert [g.group_id for g in refused(ApiKey.DELETE_GROUPS, 2).results] == ["a", "b"]
    assert [t.name for t in refused(ApiKey.DELETE_TOPICS, 5).responses] == ["a", "b"]
    marked = refused(ApiKey.WRITE_TXN_MARKERS, 1).markers[0].topics[0].partitions
    assert [(p.partition_index, p.error_code) for p in marked] == [(4, CODE), (5, CODE)]

    results = refused(ApiKey.ALTER_REPLICA_LOG_DIRS, 2).results
    assert [r.topic_name for r in results] == ["the name"] * 4
    assert [p.partition_index for p in results[0].partitions] == [4, 5]


def test_one_answer_per_user():
    """A user with a deletion and an upsertion is answered once."""
    api = api_of(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
    shape = codec.request_shape(api)
    deletion = make_message(shape.field("deletions").shape, 0, {"name": "ann"})
    upsertions = tuple(
        make_message(shape.field("upsertions").shape, 0, {"name": user}) for user in ("ann", "bob")
    )
    request = make_message(shape, 0, {"deletions": (deletion,), "upsertions": upsertions})
    reply = refused(api.key, 0, request)
    assert [(r.user, r.error_code) for r in reply.results] == [("ann", CODE), ("bob", CODE)]


def test_a_reply_carries_any_error_code():
    """Kafka's unknown server error, -1, and all codes of Sluice's list can be sent, also those that kio lacks."""
    api = api_of(ApiKey.HEARTBEAT, 4)
    request = codec.encode(asking(codec.request_shape(api)))
    for code in ErrorCode:
        assert error_body(api, request, code) == struct.pack(">ihx", 0, code)
    with pytest.raises(WireError, match="error code 4711 is none of Kafka's"):
        error_body(api, request, 4711)


def test_a_request_of_too_many_items_has_no_error_reply():
    """An answer for each item would delay all other connections (operations: T3)."""
    api = api_of(ApiKey.DELETE_TOPICS, 1)

    def body(topics: int) -> bytes:
        return struct.pack(">i", topics) + b"\x00\x00" * topics + struct.pack(">i", 1000)

    assert error_body(api, body(MAX_REFUSED_ELEMENTS), 44)
    with pytest.raises(WireError, match="budget"):
        error_body(api, body(MAX_REFUSED_ELEMENTS + 1), 44)


@for_each(range(4, 16))
def test_fetch_is_refused_at_its_partitions(version):
    """Each partition of the request has the code, by the topic's name or id; the session is not at fault."""
    reply = refused(ApiKey.FETCH, version)
    assert getattr(reply, "error_code", 0) == 0
    assert getattr(reply, "session_id", 0) == 0
    assert [len(topic.partitions) for topic in reply.responses] == [2, 2]
    partitions = [each for topic in reply.responses for each in topic.partitions]
    assert {each.error_code for each in partitions} == {CODE}
    assert {each.high_watermark for each in partitions} == {-1}


def fetching(version: int, **fields: object):
    """Return the reply to a Fetch of two topics with these fields, refused with a topic's code."""
    shape = codec.request_shape(api_of(ApiKey.FETCH, version))
    topics = (asking(shape.field("topics").shape),) * 2
    request = make_message(shape, 0, {"topics": topics, **fields})
    return refused(ApiKey.FETCH, version, request)


@pytest.mark.parametrize("version", [7, 12, 15])
def test_an_incremental_fetch_is_asked_to_name_all_partitions(version):
    """It names those that changed only; the answer ends the session, so that the next request names them all."""
    reply = fetching(version, session_id=7, session_epoch=3)
    assert reply.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert reply.responses == ()


@pytest.mark.parametrize("session", [(7, 0), (0, -1), (7, -1), (0, 0)])
def test_a_fetch_that_names_all_partitions_is_refused_at_once(session):
    """A session that begins or ends, and none, name all of them."""
    reply = fetching(12, session_id=session[0], session_epoch=session[1])
    assert reply.error_code == 0
    assert len(reply.responses) == 2


def test_a_code_of_sessions_stands_at_the_top():
    """A policy that ends a session itself says so where the client looks."""
    code = int(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert refused(ApiKey.FETCH, 12, code=code).error_code == code


@for_each(range(14))
def test_metadata_is_refused_at_its_topics_and_names_the_brokers(version):
    """A client that is refused its topics still finds its brokers."""
    api = api_of(ApiKey.METADATA, version)
    shape = codec.request_shape(api)
    body = codec.encode(make_message(shape, 0, {"topics": asking(shape).topics}))
    brokers = [(1, "127.0.0.1", 19093), (2, "sluice", 19094)]
    reply = codec.decode_response(api, error_body(api, body, CODE, brokers=brokers))
    assert [(each.node_id, each.host, each.port) for each in reply.brokers] == brokers
    assert {each.error_code for each in reply.topics} == {CODE}
    assert getattr(reply, "error_code", 0) == 0
