"""Deny in every API whose items Kafka refuses one by one: the rest is forwarded, and the reply has each item once."""

from itertools import product

import pytest

from policies.api import Need, Reject
from policies.denial import Deny
from policies.division import tells_more
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import divided_requests as d
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of
from wire import codec
from wire.apis import ApiKey
from wire.authorization import Ask, Operation, ResourceType, Scope, checks_of, is_authorized
from wire.errors import ErrorCode

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
LATER = ErrorCode.POLICY_VIOLATION
BROKEN = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
NESTED = [
    api for api in d.VERSIONS if d.kind_of(api) is d.GROUP and d.KINDS[api.name] is d.TOPIC
] + [api for api in d.VERSIONS if api.name == "DescribeShareGroupOffsets"]


def denying(codes, **options):
    """A chain of one policy that denies these, and the engine knows the names of topics."""
    options = {"needs": Need.TOPICS, **options}
    engine = make_engine([Recorder(lambda _: Deny(codes, "no"), **options)])
    engine.rewrites.learn({ident.bytes: text for text, ident in d.IDS.items()})
    return Wire(engine)


def answered(api, items, code=BROKEN):
    """What a broker answers about these items."""
    if d.has_partitions(api):
        return {item: dict.fromkeys(indexes, code) for item, indexes in items.items()}
    return dict.fromkeys(items, code)


def test_the_apis_that_are_divided_are_those_that_kafka_divides() -> None:
    """By the table of rights: those with a right of which one item may be refused."""
    by_items = {
        api.name
        for api in d.apis_known()
        if is_authorized(api) and any(c.scope is Scope.ITEM for c in checks_of(api))
    }
    assert by_items == set(d.KINDS)
    assert len(by_items) == 30


@for_each(product(d.VERSIONS, [1 << 18, 5]))
def test_the_rest_is_forwarded_and_the_reply_is_joined(api, chunk):
    """The broker gets the bytes of the other items; the client gets each item once, and what the broker says of it."""
    wire = denying({d.ask(api, "bad"): DENIED, d.ask(api, "worse"): LATER})
    good = {"good": [3, 4]}
    wire.client(d.request(api, {"bad": [0, 1], **good, "worse": [7]}), chunk)
    assert wire.to_broker == d.request(api, good)
    reply = d.reply(api, answered(api, good))
    for start in range(0, len(reply), chunk):
        wire.broker(reply[start : start + chunk])
    refused = d.leaves(api, {"bad": [0, 1]}, DENIED) + d.leaves(api, {"worse": [7]}, LATER)
    assert sorted(d.codes_in(api, wire.to_client)) == sorted(refused + d.leaves(api, good, BROKEN))
    assert len(f.whole_frames(wire.to_client)) == 1
    assert wire.held_bytes == 0


@for_each(d.VERSIONS)
def test_the_bytes_of_the_brokers_items_stay(api):
    """And all that stands around the array."""
    wire = denying({d.ask(api, "bad"): DENIED})
    wire.client(d.request(api, {"bad": [0], "good": [3]}))
    reply = d.reply(api, answered(api, {"good": [3]}))
    wire.broker(reply)
    alone = d.reply(api, {})
    at = next(n for n in range(8, len(alone)) if alone[n] != reply[n])
    assert wire.to_client[8 : at - 3] == reply[8 : at - 3]
    assert wire.to_client.endswith(reply[at + 1 :])


@for_each(d.VERSIONS)
def test_a_request_of_which_nothing_is_left_is_answered_here(api):
    """With the code of each; but the broker gets one without items if its reply tells more than those."""
    wire = denying({d.ask(api, "bad"): DENIED, d.ask(api, "worse"): LATER})
    wire.client(d.request(api, {"bad": [0], "worse": [7, 8]}))
    if tells_more(api):
        assert wire.to_broker == d.request(api, {})
        wire.broker(d.reply(api, {}))
    assert wire.to_broker in {b"", d.request(api, {})}
    expected = d.leaves(api, {"bad": [0]}, DENIED) + d.leaves(api, {"worse": [7, 8]}, LATER)
    assert sorted(d.codes_in(api, wire.to_client)) == sorted(expected)
    assert wire.held_bytes == 0


@for_each(d.VERSIONS)
def test_a_denial_of_other_items_changes_nothing(api):
    """The request passes byte for byte."""
    other = {d.ask(api, "other"): DENIED, d.ask(api, "worse"): DENIED}
    wire = denying(other)
    asked = d.request(api, {"good": [3], "bad": [0]})
    wire.client(asked)
    assert wire.to_broker == asked


@for_each(api for api in d.VERSIONS if codec.response_shape(api).field("error_code"))
def test_a_request_that_the_broker_refuses_whole_stays_so(api):
    """A reply with a code of its own names no item, as Kafka's; Metadata's is not about its topics."""
    if api.key == ApiKey.METADATA:
        return
    wire = denying({d.ask(api, "bad"): DENIED})
    wire.client(d.request(api, {"bad": [0], "good": [3]}))
    reply = d.reply(api, {}, top=BROKEN)
    wire.broker(reply)
    assert wire.to_client == reply


@for_each(api for api in d.VERSIONS if d.kind_of(api) is d.TOPIC)
def test_a_topic_is_denied_by_its_id_or_name_without_an_ask(api):
    """A key is a name, or the id of a topic whose name is not known."""
    by_id = "topic_id" in str(codec.request_shape(api).untagged) and api.key != ApiKey.METADATA
    wire = Wire(make_engine([Recorder(lambda _: Deny({key: DENIED}), needs=Need.TOPICS)]))
    items = {"good": [3], "bad": [0]}
    wire_request = d.request(api, items)
    key = d.IDS["bad"].bytes if by_id and d.IDS["bad"].bytes in wire_request else "bad"
    wire.client(wire_request)
    assert wire.to_broker == d.request(api, {"good": [3]})


# -- topics in groups -------------------------------------------------------------------------------


def in_groups(*groups, **topics):
    """A request or reply of these groups, each with these topics."""
    return {group: dict(topics) for group in groups}


@for_each(product(NESTED, [1 << 18, 5]))
def test_a_denied_topic_is_refused_inside_its_group(api, chunk):
    """In each group that names it, beside the topics that the broker answers; a denied group is refused beside them."""
    wire = denying(
        {d.ask(api, "secret", d.GROUP): GROUP_DENIED, d.ask(api, "bad", d.TOPIC): DENIED}
    )
    asked = in_groups("g", "secret", "h", bad=[1, 2], good=[3]) | {"i": {"bad": [0]}}
    wire.client(d.request(api, asked), chunk)
    left = in_groups("g", "h", good=[3]) | {"i": {}}
    assert wire.to_broker == d.request(api, left)
    reply = d.reply(api, in_groups("g", "h", good={3: BROKEN}) | {"i": {}})
    for start in range(0, len(reply), chunk):
        wire.broker(reply[start : start + chunk])
    inside = [
        (group, topic, index, code)
        for group in ("g", "h")
        for topic, index, code in [("bad", 1, 29), ("bad", 2, 29), ("good", 3, BROKEN)]
    ]
    expected = [("secret", 30), *inside, ("i", "bad", 0, 29)]
    assert d.codes_in(api, wire.to_client) == expected
    assert wire.held_bytes == 0


@for_each(NESTED)
def test_a_group_that_the_broker_refuses_names_no_topic(api):
    """As Kafka: its code is about all of them."""
    wire = denying({d.ask(api, "bad", d.TOPIC): DENIED})
    wire.client(d.request(api, in_groups("g", "h", bad=[1], good=[3])))
    refused = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    wire.broker(d.reply(api, {"g": refused, "h": {"good": {3: BROKEN}}}))
    found = d.codes_in(api, wire.to_client)
    assert [each for each in found if each[0] == "g"] == [("g", refused)]
    assert ("h", "bad", 1, 29) in found


@for_each(NESTED)
def test_a_group_of_all_topics_stays_one_of_all_topics(api):
    """Null is not an empty array: the broker is asked for all of them."""
    shape = codec.request_shape(api)
    inner = shape.field("groups").shape
    groups = [d.make_message(inner, 0, {"group_id": g, "topics": None}) for g in ("good", "bad")]
    frames = [
        f.request(
            api.key,
            api.version,
            1,
            codec.encode(d.make_message(shape, 0, {"groups": tuple(some)})),
            tagged=api.flexible,
        )
        for some in (groups, groups[:1])
    ]
    wire = denying({d.ask(api, "bad"): GROUP_DENIED, d.ask(api, "t", d.TOPIC): DENIED})
    wire.client(frames[0])
    assert wire.to_broker == frames[1]


# -- what refuses a request whole -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "version"), [(ApiKey.OFFSET_COMMIT, 8), (ApiKey.TXN_OFFSET_COMMIT, 3)]
)
def test_the_first_right_of_the_table_decides(key, version):
    """A denied group refuses the request whole, whichever of its topics are denied."""
    api = api_of(key, version)
    group = Ask(d.GROUP, "g", Operation.READ, GROUP_DENIED)
    wire = denying({d.ask(api, "bad"): DENIED, group: GROUP_DENIED})
    wire.client(d.request(api, ["good", "bad"], group_id="g"))
    assert wire.to_broker == b""
    assert d.codes_in(api, wire.to_client) == [("good", 0, 30), ("bad", 0, 30)]


@for_each(version for version in range(4))
def test_nothing_of_a_transaction_is_attempted_if_a_topic_is_denied(version):
    """The denied one by its code, the others by OPERATION_NOT_ATTEMPTED, and the broker hears nothing."""
    api = api_of(ApiKey.ADD_PARTITIONS_TO_TXN, version)
    shape = codec.request_shape(api)
    inner = shape.field("v3_and_below_topics").shape
    topics = [d.make_message(inner, 0, {"name": n, "partitions": (0, 1)}) for n in ("good", "bad")]
    body = codec.encode(d.make_message(shape, 0, {"v3_and_below_topics": tuple(topics)}))
    wire = denying({d.ask(api, "bad", d.TOPIC): DENIED})
    wire.client(f.request(api.key, version, 1, body, tagged=api.flexible))
    assert wire.to_broker == b""
    found = {
        (topic.name, each.partition_index): int(each.partition_error_code)
        for topic in d.decoded(api, wire.to_client).results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }
    not_attempted = int(ErrorCode.OPERATION_NOT_ATTEMPTED)
    assert found == {
        ("good", 0): not_attempted, ("good", 1): not_attempted, ("bad", 0): 29, ("bad", 1): 29,
    }  # fmt: skip


def test_a_right_that_the_api_does_not_need_refuses_it_whole():
    """The policy means something else than the table: it must not fail open."""
    api = api_of(ApiKey.METADATA, 12)
    wire = denying({Ask(d.TRANSACTION, "t", Operation.WRITE, ErrorCode(53)): 53})
    wire.client(d.request(api, ["good"]))
    assert wire.to_broker == b""
    assert d.codes_in(api, wire.to_client) == [("good", 53)]


# -- what is special ------------------------------------------------------------------------------


@for_each(
    [
        api
        for api in d.VERSIONS
        if api.name in {"DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs"}
    ]
)
def test_config_resources_are_denied_by_their_type_and_name(api):
    """A topic, a group and the brokers, each by its own code; others with the same name pass."""
    act = next(check for check in checks_of(api) if check.act)
    cluster = Ask(ResourceType.CLUSTER, act.act, act.operation, act.code)
    asked = ["bad", "good", "group-bad", "group-good", "1"]
    denied = {d.ask(api, "bad"): 29, d.ask(api, "group-bad", d.GROUP): 30, cluster: 31}
    wire = denying(
        denied | {d.ask(api, "group-good", d.TOPIC): 29, d.ask(api, "good", d.GROUP): 30}
    )
    wire.client(d.request(api, asked))
    assert wire.to_broker == d.request(api, ["good", "group-good"])
    wire.broker(d.reply(api, {"good": 0, "group-good": 0}))
    expected = [("bad", 29), ("group-bad", 30), ("1", 31), ("good", 0), ("group-good", 0)]
    assert d.codes_in(api, wire.to_client) == expected


@for_each(api for api in d.VERSIONS if api.name == "FindCoordinator")
def test_a_coordinator_is_denied_by_the_type_of_its_key(api):
    """A transactional id and a group may have the same name."""
    codes = {d.ask(api, "bad", d.GROUP): 30, d.ask(api, "good", d.TRANSACTION): 53}
    wire = denying(codes)
    wire.client(d.request(api, ["bad", "good"], 1, key_type=1))
    assert wire.to_broker == d.request(api, ["bad"], 1, key_type=1)
    wire.broker(d.reply(api, {"bad": 0}))
    assert d.codes_in(api, wire.to_client) == [("good", 53), ("bad", 0)]


@for_each(api for api in d.VERSIONS if api.name == "ShareFetch")
def test_a_denied_acknowledgement_has_its_own_code(api):
    """Beside the code of the fetch, and only if records are acknowledged."""
    shape = codec.request_shape(api)
    topic = shape.field("topics").shape
    partition = topic.field("partitions").shape
    batch = d.make_message(partition.field("acknowledgement_batches").shape, 0, {"first_offset": 1})
    both = [
        d.make_message(partition, 0, {"partition_index": n, "acknowledgement_batches": batches})
        for n, batches in enumerate([(batch, batch), ()])
    ]
    bad = d.make_message(topic, 0, {"topic_id": d.IDS["bad"], "partitions": tuple(both)})
    body = codec.encode(d.make_message(shape, 0, {"topics": (bad,), "share_session_epoch": 1}))
    wire = denying({d.ask(api, "bad"): DENIED})
    wire.client(f.request(api.key, api.version, 1, body, tagged=True))
    wire.broker(d.reply(api, {}))
    (answer,) = d.decoded(api, wire.to_client).responses
    found = [(each.error_code, each.acknowledge_error_code) for each in answer.partitions]
    assert found == [(DENIED, DENIED), (DENIED, 0)]


@pytest.mark.parametrize("name", sorted(d.KINDS))
def test_thousands_of_items_are_divided_in_turns(name):
    """Every second one is denied; no turn takes all of them."""
    api = max((api for api in d.VERSIONS if api.name == name), key=lambda each: each.version)
    items = [f"item-{number:05}" for number in range(4_000)]
    ids = {d.id_of(each).bytes: each for each in items}
    wire = denying({d.ask(api, each): DENIED for each in items[::2]})
    wire.engine.rewrites.learn(ids)
    wire.client(d.request(api, items))
    assert wire.to_broker == d.request(api, items[1::2])
    wire.broker(d.reply(api, {}))
    assert len(d.codes_in(api, wire.to_client)) == len(items) // 2
    assert wire.turns > 40
    assert wire.held_bytes == 0


def test_one_topic_of_thousands_of_partitions_is_refused_in_items():
    """Each partition is there once."""
    api = api_of(ApiKey.LIST_OFFSETS, 7)
    wire = denying({"bad": DENIED})
    wire.client(d.request(api, {"bad": range(3_000), "good": range(3_000)}))
    assert wire.to_broker == d.request(api, {"good": range(3_000)})
    wire.broker(d.reply(api, {"good": dict.fromkeys(range(3_000), 0)}))
    found = d.codes_in(api, wire.to_client)
    assert sorted(found) == sorted(
        [("bad", n, 29) for n in range(3_000)] + [("good", n, 0) for n in range(3_000)]
    )
    assert wire.turns > 60


def test_the_decision_is_reported_once_for_each_code():
    """With its policy and its words."""
    api = api_of(ApiKey.DESCRIBE_GROUPS, 5)
    seen = []
    wire = denying({d.ask(api, "bad"): 30, d.ask(api, "worse"): 44})
    wire.watcher.on_policy_refused = seen.append
    wire.client(d.request(api, ["bad", "good", "worse"]))
    assert [(each.policy, each.verdict) for each in seen] == [
        ("p0", Reject(ErrorCode(code), message="no")) for code in (30, 44)
    ]
