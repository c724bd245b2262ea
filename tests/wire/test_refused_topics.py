"""Refusals of a Fetch and a Metadata: where consumers look for them, and beside the brokers."""

import pytest

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, asking, refused
from wire import codec
from wire.apis import ApiKey
from wire.errors import ErrorCode
from wire.replies import error_body
from wire.schema import make_message

CODE = int(ErrorCode.POLICY_VIOLATION)


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
