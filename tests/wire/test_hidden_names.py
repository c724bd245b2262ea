"""No reply names what is hidden, and what is asked for never vanishes from it."""

from dataclasses import fields, is_dataclass, replace

import pytest
from hypothesis import strategies as st

from policies import messages
from policies.messages import Message
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known, messages_of
from wire import codec
from wire.apis import Api, ApiKey
from wire.authorization import Operation, ResourceType
from wire.listing_cuts import LISTED, cut
from wire.listing_view import NOT_ASKED, View

READ = [api for api in apis_known() if api.key in LISTED]
CLIENT_METRICS = api_of(ApiKey.LIST_CONFIG_RESOURCES, 0)
"""It lists no topics."""
NAMES = {
    **dict.fromkeys(("name", "topic_name", "topic", "sink_topic", "source_topics"), "topic"),
    **dict.fromkeys(("repartition_sink_topics", "resource_name"), "topic"),
    **dict.fromkeys(("group_id",), "group"),
    **dict.fromkeys(("transactional_id",), "id"),
}
OTHER_NAMES = {"CreatableTopicConfigs.name", "TopologyDescriptionNode.name"}
UNNAMED = {"ListGroups", "ListTransactions"}
"""Requests that name no groups and ids: what is hidden of them is left out, too."""


def is_shown(_: ResourceType, name: str, __: Operation) -> bool:
    """Whether a name is shown."""
    return not name.startswith("secret")


VIEW = View(is_shown, next_topic=lambda _: None)


def named(value: object, data: st.DataObject) -> object:
    """Return a message whose names say whether they are secret, and in which nothing is refused yet."""
    if isinstance(value, tuple):
        return tuple(named(each, data) for each in value)
    if not is_dataclass(value):
        return value
    changes = {}
    for field in fields(value):
        old = getattr(value, field.name)
        kind = NAMES.get(field.name)
        if field.name == "error_code":
            changes[field.name] = type(old)(0)
        elif kind is None or old is None or f"{type(value).__name__}.{field.name}" in OTHER_NAMES:
            changes[field.name] = named(old, data)
        else:
            secret = data.draw(st.sampled_from([f"secret-{kind}", f"{kind}-1"]))
            changes[field.name] = (secret,) * len(old) if isinstance(old, tuple) else secret
        if field.name == "resource_type":
            changes[field.name] = type(old)(2)
    return replace(value, **changes)


@for_each(READ, examples=15)
def test_a_hidden_topic_is_nowhere_in_the_bytes(api: Api, data: st.DataObject) -> None:
    """Nor a hidden group or id, where the request has not named it."""
    message = named(data.draw(messages_of(codec.response_shape(api))), data)
    body = codec.encode(message)
    after = cut(api, body, VIEW)
    left = body if after is None else after
    are_named = api.key in {ApiKey.CREATE_TOPICS, ApiKey.DESCRIBE_CONFIGS}  # by the request
    if not are_named and api != CLIENT_METRICS:
        assert b"secret-topic" not in left
    if api.name in UNNAMED:
        assert b"secret" not in left
    for kind in ("group", "id"):
        if api.name not in UNNAMED:
            secret = f"secret-{kind}".encode()
            assert left.count(secret) == body.count(secret)


def made(api: Api, **said: object) -> bytes:
    """Return the body of a reply."""
    return messages.encode(messages.make_response(api, said))


def seen(api: Api, body: bytes, view: View) -> Message:
    """Return the reply as the client gets it."""
    after = cut(api, body, view)
    return messages.decode_response(api, body if after is None else after)


@pytest.mark.parametrize("version", range(8, 14))
def test_authorized_operations_are_those_of_both(version: int) -> None:
    """What the broker lets Sluice do, and the rules let the client do. Where they were not asked for, they stay."""
    api = api_of(ApiKey.METADATA, version)
    masks = {"a": 0x1F8, "b": NOT_ASKED, "c": 0x18}
    topics = [{"name": name, "topic_authorized_operations": each} for name, each in masks.items()]
    cluster = {"cluster_authorized_operations": 0xFF0} if version <= 10 else {}
    body = made(api, topics=topics, **cluster)
    view = View(is_shown, lambda _, name: {"a": 0x118}.get(name, 0x108), 0x130)
    reply = seen(api, body, view)
    found = [each.topic_authorized_operations for each in messages.structs(reply, "topics")]
    assert found == [0x118, NOT_ASKED, 0x8]
    if version <= 10:
        assert messages.value(reply, "cluster_authorized_operations", int, 0) == 0x130
    assert cut(api, body, View(is_shown)) is None


@pytest.mark.parametrize("version", range(3))
def test_a_client_that_may_not_describe_the_cluster_may_do_nothing_with_it(version: int) -> None:
    """As Kafka says it: 0. A request that did not ask gets no answer."""
    api = api_of(ApiKey.DESCRIBE_CLUSTER, version)
    view = View(is_shown, None, 0)
    asked = seen(api, made(api, cluster_id="c", cluster_authorized_operations=0xFF0), view)
    assert messages.value(asked, "cluster_authorized_operations", int, -1) == 0
    body = made(api, cluster_id="c", cluster_authorized_operations=NOT_ASKED)
    assert cut(api, body, view) is None


@pytest.mark.parametrize(
    ("tags", "after"),
    [
        ("00", "01 00 02 001d"),
        ("01 05 01 ff", "02 00 02 001d 05 01 ff"),
        ("02 00 02 0007 05 01 ff", "02 00 02 0007 05 01 ff"),
    ],
)
def test_settings_that_are_not_shown_have_a_code_in_a_tag(tags: str, after: str) -> None:
    """It comes before the other tags, which stay; a code that is there already stays, too."""
    api = api_of(ApiKey.CREATE_TOPICS, 7)
    before = "00000000 02 02 61" + "22" * 16 + "0000 00"
    configs = "00000003 0002 02 02 62 02 63 00 01 00 00"
    body = bytes.fromhex(before + configs + tags + "00")
    wanted = bytes.fromhex(before + "ffffffff ffff 01" + after + "00")
    assert (
        cut(api, body, View(lambda _, __, operation: operation != Operation.DESCRIBE_CONFIGS))
        == wanted
    )
    assert cut(api, body, VIEW) is None


def test_a_topic_that_could_not_be_created_has_no_settings_to_hide() -> None:
    """Its code says why, and Kafka gives no other."""
    api = api_of(ApiKey.CREATE_TOPICS, 7)
    body = made(api, topics=[{"name": "a", "error_code": 36, "num_partitions": -1}])
    assert cut(api, body, View(lambda *_: False)) is None


@pytest.mark.parametrize("version", [12, 13])
def test_a_hidden_topic_that_is_asked_for_by_id_is_refused_by_it(version: int) -> None:
    """Its name is not told. Of a listing of all topics it is left out."""
    api = api_of(ApiKey.METADATA, version)
    topic_id = bytes(range(16))
    partition = {"partition_index": 1, "replica_nodes": [1, 2]}
    topic = {"name": "secret", "topic_id": topic_id, "is_internal": True}
    body = made(api, topics=[{**topic, "partitions": [partition]}, {"name": "a"}])
    refused = {"error_code": 29, "name": None, "topic_id": topic_id}
    assert cut(api, body, VIEW._replace(asks_by_id=True)) == made(
        api, topics=[{**refused, "topic_authorized_operations": NOT_ASKED}, {"name": "a"}]
    )
    assert cut(api, body, VIEW) == made(api, topics=[{"name": "a"}])


def test_a_group_that_is_refused_already_tells_no_hidden_topics() -> None:
    """A broker that sends both, a refusal and what it refuses, is not trusted with it."""
    api = api_of(ApiKey.CONSUMER_GROUP_DESCRIBE, 1)
    assignment = {"topic_partitions": [{"topic_name": "secret", "partitions": [1]}]}
    members = [{"member_id": "m", "assignment": assignment, "target_assignment": {}}]
    reply = seen(
        api, made(api, groups=[{"group_id": "g", "error_code": 30, "members": members}]), VIEW
    )
    (group,) = messages.structs(reply, "groups")
    assert (group.group_id, int(group.error_code), group.members) == ("g", 29, ())


def test_a_description_that_names_a_hidden_topic_is_not_shown() -> None:
    """The group stays: its own topics are shown."""
    api = api_of(ApiKey.STREAMS_GROUP_DESCRIBE, 1)
    node = {"name": "n", "sink_topic": "secret"}
    description = {"subtopologies": [{"subtopology_id": "0", "nodes": [node]}]}
    topology = {"epoch": 1, "subtopologies": [{"subtopology_id": "0", "source_topics": ["a"]}]}
    group = {"group_id": "g", "topology": topology, "topology_description_status": 3}
    body = made(api, groups=[{**group, "topology_description": description}])
    (found,) = messages.structs(seen(api, body, VIEW), "groups")
    assert found.topology is not None
    assert (found.topology_description, found.topology_description_status) == (None, 2)


@pytest.mark.parametrize("code", [29, 100])
def test_an_id_that_is_refused_or_unknown_stays_among_the_offsets(code: int) -> None:
    """The client has asked for it: nothing else is known of it."""
    api = api_of(ApiKey.OFFSET_FETCH, 10)
    topic = {"topic_id": b"i" * 16, "partitions": [{"partition_index": 0, "error_code": code}]}
    body = made(api, groups=[{"group_id": "g", "topics": [topic]}])
    assert cut(api, body, VIEW) is None
    unasked = {**topic, "partitions": [{"partition_index": 0}]}
    body = made(api, groups=[{"group_id": "g", "topics": [unasked]}])
    assert cut(api, body, VIEW) == made(api, groups=[{"group_id": "g", "topics": []}])
