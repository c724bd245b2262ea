"""Deny of groups: the broker answers for the others, and the client gets one reply for all of them."""

from policies.api import Need
from policies.denial import Deny
from policies.testing import BenchHost
from policies.topics import TopicRules
from policies.validation import try_convert
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known
from wire import codec
from wire.apis import ApiKey
from wire.errors import ErrorCode
from wire.request_parts import GROUPED
from wire.schema import make_message

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
GROUP_ARRAYS = {
    ApiKey.DESCRIBE_GROUPS: ("groups", "groups"),
    ApiKey.DELETE_GROUPS: ("groups_names", "results"),
    ApiKey.OFFSET_FETCH: ("groups", "groups"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: ("groups", "groups"),
    ApiKey.FIND_COORDINATOR: ("coordinator_keys", "coordinators"),
}
ONE_GROUP = {ApiKey.OFFSET_FETCH: 8, ApiKey.FIND_COORDINATOR: 4}
"""The first version with several groups."""
BY_GROUP = [
    api for api in apis_known() if api.key in GROUPED and api.version >= ONE_GROUP.get(api.key, 0)
]


def group_arrays(api):
    """The names of the arrays of groups in request and response."""
    return GROUP_ARRAYS.get(api.key, ("group_ids", "groups"))


def group_body(api, groups):
    """A request body that names these groups."""
    shape = codec.request_shape(api)
    array = group_arrays(api)[0]
    inner = shape.field(array).shape
    items = groups if inner is None else [make_message(inner, 0, {"group_id": g}) for g in groups]
    return codec.encode(make_message(shape, 0, {array: tuple(items)}))


def group_request(api, groups):
    """The frame of such a request."""
    return f.request(api.key, api.version, 1, group_body(api, groups), tagged=api.flexible)


def group_answer(api, codes):
    """A reply frame in which these groups have these codes."""
    shape = codec.response_shape(api)
    array = group_arrays(api)[1]
    field = shape.field(array)
    key = "key" if field.shape.field("key") else "group_id"
    items = [make_message(field.shape, code, {key: group}) for group, code in codes.items()]
    made = codec.encode(make_message(shape, 0, {array: tuple(items)}))
    return f.reply(1, made, tagged=bool(api.response_header_version))


def group_codes(api, frame):
    """Error code by group of a reply frame, in its order."""
    reply = codec.decode_response(api, bytes(frame[9 if api.response_header_version else 8 :]))
    items = getattr(reply, group_arrays(api)[1])
    return {getattr(each, "key", None) or each.group_id: int(each.error_code) for each in items}


def denying_groups(*groups, topics=None, key=None):
    """A chain of one policy that denies these groups, for one API if it is given."""
    denial = Deny(topics or {}, groups=dict.fromkeys(groups, GROUP_DENIED))
    apis = frozenset({key}) if key is not None else frozenset(GROUPED)
    return Wire(make_engine([Recorder(lambda _: denial, needs=Need.TOPICS, apis=apis)]))


@for_each(BY_GROUP)
def test_some_groups_are_denied_and_the_others_reach_the_broker(api):
    """Its reply has all of them; nothing stays in memory."""
    wire = denying_groups("bad", "worse")
    wire.client(group_request(api, ["good", "bad", "better", "worse"]))
    assert wire.to_broker == group_request(api, ["good", "better"])
    wire.broker(group_answer(api, {"good": 0, "better": 0}))
    codes = group_codes(api, wire.to_client)
    assert codes == {"bad": GROUP_DENIED, "worse": GROUP_DENIED, "good": 0, "better": 0}
    assert wire.held_bytes == 0


@for_each(BY_GROUP)
def test_all_groups_are_denied_and_nothing_reaches_the_broker(api):
    """The reply is made here."""
    wire = denying_groups("bad", "worse")
    wire.client(group_request(api, ["bad", "worse"]))
    assert wire.to_broker == b""
    assert group_codes(api, wire.to_client) == {"bad": GROUP_DENIED, "worse": GROUP_DENIED}


def test_a_request_in_which_a_group_and_a_topic_are_denied_is_refused_whole():
    """No group of it reaches the broker, whosever the topic is."""
    api = api_of(ApiKey.OFFSET_FETCH, 8)
    shape = codec.request_shape(api)
    inner = shape.field("groups").shape
    topic = make_message(inner.field("topics").shape, 0, {"name": "bad", "partition_indexes": (0,)})
    groups = [make_message(inner, 0, {"group_id": g, "topics": (topic,)}) for g in ("good", "bad")]
    asks = codec.encode(make_message(shape, 0, {"groups": tuple(groups)}))
    wire = denying_groups("bad", topics={"bad": DENIED})
    wire.client(f.request(api.key, api.version, 1, asks, tagged=True))
    assert wire.to_broker == b""
    assert group_codes(api, wire.to_client) == dict.fromkeys(("good", "bad"), GROUP_DENIED)


def test_a_denied_group_of_an_api_that_names_one_refuses_the_request():
    """Here OffsetCommit, whose topics can be divided."""
    api = api_of(ApiKey.OFFSET_COMMIT, 8)
    asks = make_message(codec.request_shape(api), 0, {"group_id": "bad"})
    wire = denying_groups("bad", key=ApiKey.OFFSET_COMMIT)
    wire.client(f.request(api.key, api.version, 1, codec.encode(asks), tagged=True))
    assert wire.to_broker == b""
    assert wire.to_client


def test_several_groups_of_many_are_denied_in_turns():
    """Five thousand, every second of them."""
    api = api_of(ApiKey.DESCRIBE_GROUPS, 5)
    groups = [f"g-{number}" for number in range(5_000)]
    wire = denying_groups(*groups[::2])
    wire.client(group_request(api, groups))
    assert wire.to_broker == group_request(api, groups[1::2])
    wire.broker(group_answer(api, dict.fromkeys(groups[1::2], 0)))
    codes = group_codes(api, wire.to_client)
    assert codes == {g: (0 if n % 2 else GROUP_DENIED) for n, g in enumerate(groups)}
    assert wire.turns > 50


@for_each(
    [a for a in BY_GROUP if a.key in {ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS}]
)
def test_denied_groups_stand_in_a_reply_that_is_cut(api):
    """`topics` cuts out what the client may not see, and not what Sluice has refused."""
    settings, _ = try_convert(
        TopicRules.Config, {"rules": [{"topics": ["*"], "groups": ["good-*"]}]}, "config"
    )
    wire = Wire(make_engine([TopicRules(settings, BenchHost("topics"))]))
    wire.client(group_request(api, ["good-1", "bad", "good-2"]))
    assert wire.to_broker == group_request(api, ["good-1", "good-2"])
    wire.broker(group_answer(api, {"good-1": 0, "not-asked": 0, "good-2": 0}))
    assert group_codes(api, wire.to_client) == {"bad": GROUP_DENIED, "good-1": 0, "good-2": 0}
