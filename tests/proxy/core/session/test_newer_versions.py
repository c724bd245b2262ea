"""Requests of Kafka 4.4 that the codec library lacks: they pass, are judged, and are refused in their own shape."""

from uuid import UUID

from policies.api import FORWARD, Need, Reject
from tests.support.core import access_rules
from tests.support.core.access_rules import access
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, asking
from tests.support.messages.named_topics import Watcher
from wire import codec
from wire.apis import ApiKey
from wire.errors import ErrorCode
from wire.metadata import NAMES_VERSION, names_request
from wire.schema import make_message
from wire.topic_refs import TopicRef

CODE, WORDS = ErrorCode.POLICY_VIOLATION, "refused by policy p0 of Sluice: not now"
APIS = [api_of(*each) for each in ((28, 6), (42, 3), (88, 1), (89, 1), (93, 0), (94, 0))]
NAMING = [api for api in APIS if api.key != ApiKey.UNREGISTER_CONTROLLER]
ITEMS = {
    ApiKey.TXN_OFFSET_COMMIT: "topics",
    ApiKey.DELETE_GROUPS: "results",
    ApiKey.STREAMS_GROUP_DESCRIBE: "groups",
}
"""Where a reply answers each item of its request; the others have one code."""
ORDERS, OTHER = UUID(int=5), UUID(int=6)


def request_of(api, **values) -> bytes:
    """A request with two items in each list, or with these fields alone."""
    shape = codec.request_shape(api)
    body = codec.encode(make_message(shape, 0, values) if values else asking(shape))
    return f.request(api.key, api.version, 1, body, tagged=True)


def reply_of(api) -> bytes:
    return f.reply(1, codec.encode(make_message(codec.response_shape(api), 0)), tagged=True)


def told(api, frame: bytes):
    """The decoded body of a reply frame."""
    return codec.decode_response(api, frame[9:])


@for_each(APIS)
def test_it_passes_as_it_is_both_ways(api):
    """Without a policy, and for one that reads the message."""
    decoded = []

    def read(request):
        decoded.append(request.message)
        return FORWARD

    for policies in ([], [Recorder(read, needs=Need.BODY)]):
        wire = Wire(make_engine(policies))
        wire.client(request_of(api))
        wire.broker(reply_of(api))
        assert (wire.to_broker, wire.to_client) == (request_of(api), reply_of(api))
    assert decoded == [asking(codec.request_shape(api))]


@for_each(APIS)
def test_a_refusal_has_the_shape_of_its_version(api):
    """Each item has the code, and the client gets words where the version has a place for them."""
    wire = Wire(make_engine([Recorder(lambda _: Reject(CODE, message="not now"))]))
    wire.client(request_of(api))
    assert wire.to_broker == b""
    reply = told(api, wire.to_client)
    answers = getattr(reply, ITEMS[api.key]) if api.key in ITEMS else [reply]
    assert len(answers) == (2 if api.key in ITEMS else 1)
    for each in [each for one in answers for each in getattr(one, "partitions", [one])]:
        assert each.error_code == CODE
        assert getattr(each, "error_message", WORDS) == WORDS


@for_each(NAMING)
def test_a_policy_is_told_all_that_it_names(api):
    """The group, and the topics of a commit."""
    watcher = Watcher()
    wire = Wire(make_engine([watcher]))
    wire.client(request_of(api))
    ((topics, groups, complete),) = watcher.seen
    assert groups in {("the group_id",), ("a", "b")}
    assert bool(topics) == (api.key == ApiKey.TXN_OFFSET_COMMIT)  # the others are asked for below
    assert complete


def rules(user_topics: str, groups: str = "*") -> Wire:
    """A chain that lets everyone use these topics and groups."""
    settings = access_rules.rules(user_topics, groups=(groups,), transactions=("*",))
    wire = Wire(make_engine([access(settings)]))
    wire.engine.rewrites.learn({ORDERS.bytes: "orders"})
    return wire


def commit_of(*ids: UUID) -> bytes:
    """A TxnOffsetCommit v6 of one partition of each topic."""
    api = api_of(ApiKey.TXN_OFFSET_COMMIT, 6)
    item = codec.request_shape(api).item("topics")
    partition = make_message(item.item("partitions"), 0)
    topics = [make_message(item, 0, {"topic_id": i, "partitions": (partition,)}) for i in ids]
    return request_of(api, group_id="g", topics=tuple(topics))


def test_a_commit_by_topic_ids_is_judged_by_their_names():
    """A rule about names decides; the broker is asked for the name of an id that is not known."""
    api = api_of(ApiKey.TXN_OFFSET_COMMIT, 6)
    wire = rules("orders")
    wire.client(commit_of(ORDERS))
    assert wire.to_broker == commit_of(ORDERS)

    for wire, topic, code in (
        (rules("public"), ORDERS, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (rules("orders"), OTHER, ErrorCode.UNKNOWN_TOPIC_ID),
    ):
        wire.client(commit_of(topic))
        if code == ErrorCode.UNKNOWN_TOPIC_ID:
            assert wire.to_broker == names_request([topic.bytes])
            wire.broker(answer_without_names())
        assert wire.to_broker in {b"", names_request([topic.bytes])}
        (refused,) = told(api, wire.to_client).topics
        assert refused.topic_id == topic
        assert [each.error_code for each in refused.partitions] == [code]


def answer_without_names() -> bytes:
    """The broker's answer about an id that no topic has."""
    api = api_of(ApiKey.METADATA, NAMES_VERSION)
    return f.reply(0, codec.encode(make_message(codec.response_shape(api), 0)), tagged=True)


def streams_heartbeat(*, topics: tuple[str, ...], patterns: tuple[str, ...] = ()) -> bytes:
    """A StreamsGroupHeartbeat v1 of a member that tells its topology."""
    api = api_of(ApiKey.STREAMS_GROUP_HEARTBEAT, 1)
    topology = codec.request_shape(api).item("topology")
    values = {"source_topics": topics, "source_topic_regex": patterns}
    part = make_message(topology.item("subtopologies"), 0, values)
    made = make_message(topology, 0, {"subtopologies": (part,)})
    return request_of(api, group_id="app", topology=made)


def test_a_streams_application_may_join_its_group_with_its_topics():
    """Group and topics are judged; a pattern needs all topics, because the broker resolves it."""
    api = api_of(ApiKey.STREAMS_GROUP_HEARTBEAT, 1)
    named = streams_heartbeat(topics=("orders",))
    pattern = streams_heartbeat(topics=("orders",), patterns=("p.*",))
    for wire, asks in ((rules("orders"), named), (rules("*"), pattern)):
        wire.client(asks)
        assert wire.to_broker == asks
    for wire, asks, code in (
        (rules("public"), named, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (rules("orders"), pattern, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (rules("*", "other"), named, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ):
        wire.client(asks)
        assert wire.to_broker == b""
        assert told(api, wire.to_client).error_code == code


def test_a_policy_is_told_the_topics_of_a_topology():
    """Of a heartbeat, which may have patterns, and of a description: what each node reads and writes."""
    named = (TopicRef("b", None, ()), TopicRef("a", None, ()))
    api = api_of(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, 0)
    description = codec.request_shape(api).item("topology_description")
    subtopology = description.item("subtopologies")
    node = {"source_topics": ("b",), "sink_topic": "a"}
    part = make_message(
        subtopology, 0, {"nodes": (make_message(subtopology.item("nodes"), 0, node),)}
    )
    made = make_message(description, 0, {"subtopologies": (part,)})
    watcher = Watcher()
    wire = Wire(make_engine([watcher]))
    wire.client(streams_heartbeat(topics=("b", "a"), patterns=("p",)))
    wire.client(request_of(api, group_id="app", topology_description=made))
    assert watcher.seen == [(named, ("app",), False), (named, ("app",), True)]
