"""Need.TOPICS: the topics and groups of a request are complete when a policy judges it, and gone afterwards."""

import pytest

from policies.api import FORWARD, Hold, Need, Reject
from policies.denial import Deny
from proxy.core.errors import CloseReason
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.named_topics import ID, Watcher, asked, fetch
from wire import codec
from wire.apis import ApiKey
from wire.errors import ErrorCode
from wire.topic_refs import TopicRef


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 18])
def test_the_topics_of_a_produce_are_there_however_the_reads_end(chunk):
    """And the request passes unchanged; after the verdict nothing of it is kept."""
    watcher = Watcher(apis={ApiKey.PRODUCE})
    wire = Wire(make_engine([watcher]))
    frame = f.produce(1, size_bytes=600, topic="orders")
    wire.client(frame, chunk)
    assert wire.to_broker == frame
    assert watcher.seen == [((TopicRef("orders", None, (0,)),), (), True)]
    wire.broker(f.produce_reply(1))
    assert watcher.later == [(None, None)]


def test_an_id_has_its_name_once_a_reply_has_told_it():
    """Before that it is unknown, and marked so."""
    engine = make_engine([watcher := Watcher(apis={ApiKey.FETCH})])
    Wire(engine).client(fetch(0, -1))
    engine.rewrites.learn({ID.bytes: "orders"})
    Wire(engine).client(fetch(0, -1))
    assert [seen[0] for seen in watcher.seen] == [
        (TopicRef(None, ID.bytes, (3,)),),
        (TopicRef("orders", ID.bytes, (3,)),),
    ]


def test_names_are_read_from_replies_while_a_policy_needs_topics():
    """Of any API that names a resource; an API that names none gets what the header tells."""
    assert make_engine([Watcher(apis={ApiKey.DELETE_TOPICS})]).rewrites.wants_topic_names
    engine = make_engine([Watcher(apis={ApiKey.DESCRIBE_CLUSTER})])
    assert not engine.rewrites.wants_topic_names
    assert engine.chain.hooks(ApiKey.DESCRIBE_CLUSTER).need is Need.HEADER


def test_groups_are_there_too():
    """A Heartbeat names its group and no topic."""
    watcher = Watcher(apis={ApiKey.HEARTBEAT})
    wire = Wire(make_engine([watcher]))
    frame = asked(ApiKey.HEARTBEAT, 4, group_id="billing")
    wire.client(frame)
    assert wire.to_broker == frame
    assert watcher.seen == [((), ("billing",), True)]


def test_a_metadata_request_of_all_topics_is_not_complete():
    """A null array asks for all."""
    watcher = Watcher(apis={ApiKey.METADATA})
    Wire(make_engine([watcher])).client(asked(ApiKey.METADATA, 12, topics=None))
    assert watcher.seen == [((), (), False)]


def test_a_request_that_cannot_be_read_ends_the_connection():
    """And never reaches the broker."""
    watcher = Watcher(apis={ApiKey.METADATA})
    wire = Wire(make_engine([watcher]))
    wire.client(f.request(3, 12, 1, b"\x09abc", tagged=True))
    assert wire.session.reason is CloseReason.CLIENT_PROTOCOL
    assert (wire.to_broker, watcher.seen) == (b"", [])
    assert wire.engine.request_pool.used_bytes == 0


def test_a_held_request_names_them_again_when_it_is_judged_again():
    """They are read again, not kept meanwhile."""
    verdicts = iter([Hold(1000, "key"), Reject(ErrorCode.TOPIC_AUTHORIZATION_FAILED)])
    watcher = Watcher(lambda _: next(verdicts), apis={ApiKey.PRODUCE})
    wire = Wire(make_engine([watcher]))
    wire.client(f.produce(1, topic="orders"))
    wire.engine.wake("key")
    wire.client(b"")
    assert [seen[0][0].name for seen in watcher.seen] == ["orders", "orders"]
    assert wire.to_broker == b""


def test_a_held_request_is_denied_by_the_names_that_its_policy_saw():
    """Also if these names are forgotten before the verdict is applied in a later turn."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    verdicts = iter([Hold(1000, "key"), Deny({"orders": code})])
    wire = Wire(make_engine([Watcher(lambda _: next(verdicts))]))
    wire.engine.rewrites.learn({ID.bytes: "orders"})
    wire.client(fetch(0, -1))
    wire.engine.wake("key")
    wire.engine.rewrites.topics.clear()
    wire.client(b"")
    assert wire.to_broker == b""
    reply = codec.decode_response(api_of(1, 13), wire.to_client[9:])
    assert [int(p.error_code) for p in reply.responses[0].partitions] == [code]


def test_a_policy_that_needs_less_is_told_so():
    """Nothing is taken for a request that names no topics."""

    def look(request):
        with pytest.raises(LookupError, match=r"Need\.TOPICS"):
            _ = request.topics
        return FORWARD

    policy = Recorder(look, needs=Need.BODY)
    Wire(make_engine([policy])).client(f.produce(1))
    assert policy.asked == [1]


@pytest.mark.parametrize("other", [Need.HEAD, Need.BODY])
def test_policies_that_need_the_head_or_the_body_have_them_as_before(other):
    """Beside one that needs topics."""
    beside = Recorder(needs=other)
    wire = Wire(make_engine([Watcher(), beside]))
    frame = f.produce(1, topic="orders")
    wire.client(frame)
    assert beside.heads[0].topics == [("orders", [0])]
    assert (beside.bodies[0] or b"") in frame
    assert wire.to_broker == frame
