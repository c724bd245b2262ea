"""topics: a client sees only the topics and groups of which it has any access, and creates none by looking at it."""

from dataclasses import replace

import pytest

from policies import messages
from policies.api import FORWARD, Forward, Reject, Replace
from policies.denial import Deny
from policies.messages import Fields, Message
from policies.testing import PolicyBench
from policies.topics import TopicRules
from tests.policies.test_topics import RULES, TOPIC, denied
from tests.support.messages.every_case import for_each
from wire import replies
from wire.errors import ErrorCode


def seen(bench: PolicyBench, user: str, api: str, version: int, listed: Fields) -> Message | None:
    """Return the listing as this user gets it; None if it is not changed."""
    peer = replace(bench.peer, user=user)
    request = bench.request(api, version)
    assert bench.ask(request, peer) is FORWARD
    verdict = bench.reply(request, fields=listed, peer=peer)
    if verdict is FORWARD:
        return None
    assert isinstance(verdict, Replace)
    return messages.decode_response(request.api, verdict.body)


def names(message: Message | None, *path: str, name: str = "name") -> list[str]:
    """Return the names in a listing."""
    assert message is not None
    return [messages.value(each, name, str, "") for each in messages.structs(message, *path)]


@pytest.mark.parametrize("version", [1, 8, 12])
def test_a_client_sees_topics_of_which_it_has_any_access(version: int) -> None:
    """In a listing of all topics."""
    bench = PolicyBench(TopicRules, RULES)
    listed = {"topics": [{"name": each} for each in ("orders", "secret", "stock", "top-1")]}
    assert names(seen(bench, "reader", "Metadata", version, listed), "topics") == [
        "orders", "stock",
    ]  # fmt: skip
    assert names(seen(bench, "writer", "Metadata", version, listed), "topics") == ["orders"]
    assert names(seen(bench, "other", "Metadata", version, listed), "topics") == []
    assert seen(bench, "owner", "Metadata", version, {"topics": [{"name": "orders"}]}) is None


@pytest.mark.parametrize(
    ("api", "version", "listed", "path", "name"),
    [
        (
            "ListGroups",
            4,
            {"groups": [{"group_id": "g-1"}, {"group_id": "h"}]},
            ["groups"],
            "group_id",
        ),
        (
            "DescribeAcls",
            3,
            {
                "resources": [
                    {"resource_type": 2, "resource_name": "secret"},
                    {"resource_type": 3, "resource_name": "g-1"},
                    {"resource_type": 3, "resource_name": "h"},
                ]
            },
            ["resources"],
            "resource_name",
        ),
        (
            "ListConfigResources",
            1,
            {
                "config_resources": [
                    {"resource_type": 2, "resource_name": "secret"},
                    {"resource_type": 32, "resource_name": "g-1"},
                    {"resource_type": 32, "resource_name": "h"},
                ]
            },
            ["config_resources"],
            "resource_name",
        ),
    ],
)
def test_a_client_sees_groups_of_which_it_has_any_access(
    api: str, version: int, listed: Fields, path: list[str], name: str
) -> None:
    """In every listing that names groups."""
    bench = PolicyBench(TopicRules, RULES)
    assert names(seen(bench, "reader", api, version, listed), *path, name=name) == ["g-1"]
    assert names(seen(bench, "other", api, version, listed), *path, name=name) == []


def test_offsets_of_all_topics_are_those_that_the_client_may_see() -> None:
    """A group's offsets tell names of topics, and from v10 on their ids: an id without a name is not shown."""
    bench = PolicyBench(TopicRules, RULES)
    ids = {each: bench.topic_id(each) for each in ("orders", "secret")}
    by_name = [{"name": each} for each in ids]
    by_id = [{"topic_id": each} for each in (*ids.values(), b"?" * 16)]
    peer = replace(bench.peer, user="reader")
    for version, topics, left in ((9, by_name, by_name[:1]), (10, by_id, by_id[:1])):
        fields = {"groups": [{"group_id": "g-1", "topics": None}]}
        request = bench.request("OffsetFetch", version, fields=fields)
        assert bench.ask(request, peer) is FORWARD
        listed = {"groups": [{"group_id": "g-1", "topics": topics}]}
        wanted = {"groups": [{"group_id": "g-1", "topics": left}]}
        verdict = bench.reply(request, fields=listed, peer=peer)
        assert verdict == Replace(messages.encode(messages.make_response(request.api, wanted)))


def test_a_listing_that_cannot_be_read_is_not_shown() -> None:
    """The client gets an error, and the operator a line in the log."""
    bench = PolicyBench(TopicRules, RULES)
    request = bench.request("ListGroups", 4)
    bench.ask(request)
    verdict = bench.reply(request, body=b"\0\0\0\0\0\0\x05secret")
    assert isinstance(verdict, Replace)
    reply = messages.decode_response(request.api, verdict.body)
    assert messages.value(reply, "error_code", int, 0) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert messages.structs(reply, "groups") == ()
    assert [message for _, message, _ in bench.reporter.messages] == ["a listing cannot be read"]


@pytest.mark.parametrize("version", range(4, 14))
@pytest.mark.parametrize(("setting", "creators"), [("rules", {"owner"}), ("deny", set())])
def test_metadata_creates_a_topic_only_for_clients_that_may(
    version: int, setting: str, creators: set[str]
) -> None:
    """The broker is told not to; the request is the same otherwise. Clients that do not ask for it notice nothing."""
    bench = PolicyBench(TopicRules, {**RULES, "auto_creation": setting})
    for user in ("reader", "writer", "owner"):
        for asked in (True, False):
            fields = {"topics": [{"name": "orders"}], "allow_auto_topic_creation": asked}
            request = bench.request("Metadata", version, fields=fields)
            verdict = bench.ask(request, replace(bench.peer, user=user))
            if user in creators or not asked:
                assert verdict is FORWARD
                continue
            assert isinstance(verdict, Forward)
            ((offset, data),) = [(each.offset, each.data) for each in verdict.patches]
            after = bytearray(request.sent_body)
            after[offset : offset + 1] = data
            wanted = messages.changed(request.message, {"allow_auto_topic_creation": False})
            assert messages.encode(wanted) == after


def test_a_request_that_may_not_create_one_topic_creates_none() -> None:
    """One flag is for all of them; a topic that is denied besides never reaches the broker."""
    bench = PolicyBench(TopicRules, RULES)
    request = bench.request("Metadata", 9, topics=("orders", "secret"))
    verdict = bench.ask(request, replace(bench.peer, user="reader"))
    assert isinstance(verdict, Forward)
    assert verdict.denials == (Deny({"secret": TOPIC}),)
    assert [each.data for each in verdict.patches] == [b"\0"]


def test_old_metadata_that_would_create_a_topic_is_denied() -> None:
    """Below v4 the request cannot say so. A request for all topics creates none."""
    bench = PolicyBench(TopicRules, RULES)
    code = ErrorCode.UNSUPPORTED_VERSION
    assert denied(bench, "reader", "Metadata", "orders", "secret", version=3) == {
        "orders": code, "secret": TOPIC,
    }  # fmt: skip
    assert denied(bench, "owner", "Metadata", "orders", version=3) is None
    assert denied(bench, "other", "Metadata", version=3, fields={"topics": None}) is None
    broker = PolicyBench(TopicRules, {**RULES, "auto_creation": "allow"})
    assert denied(broker, "reader", "Metadata", "orders", version=3) is None
    request = broker.request("Metadata", 12, topics=("orders",))
    assert broker.ask(request, replace(broker.peer, user="reader")) is FORWARD


def test_describing_all_topics_needs_the_right_to_manage_all() -> None:
    """The cursor of the reply would name a topic that the client may not see."""
    bench = PolicyBench(TopicRules, RULES)
    assert denied(bench, "reader", "DescribeTopicPartitions") == TOPIC


OFFSETS = {"OffsetFetch": (8, 9, 10), "DescribeShareGroupOffsets": (0, 1)}


@for_each([(a, v) for a, vs in OFFSETS.items() for v in vs])
def test_a_refusal_of_several_groups_names_each_with_its_code(api: str, version: int) -> None:
    """The reply that Sluice makes is a listing too; a client that misses a group in it waits, or fails."""
    bench = PolicyBench(TopicRules, RULES)
    peer = replace(bench.peer, user="reader")
    asked = [{"group_id": each, "topics": None} for each in ("not-mine", "not-either")]
    request = bench.request(api, version, fields={"groups": asked})
    refusal = bench.ask(request, peer)
    assert isinstance(refusal, Reject)
    body = replies.error_body(request.api, request.sent_body, refusal.code, refusal.message)
    assert bench.reply(request, body=body, peer=peer) is FORWARD
    reply = messages.decode_response(request.api, body)
    codes = {
        messages.value(each, "group_id", str, ""): messages.value(each, "error_code", int, 0)
        for each in messages.structs(reply, "groups")
    }
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert codes == {"not-mine": code, "not-either": code}


@for_each(range(1, 8))
def test_a_topic_whose_partitions_are_refused_stays_in_the_offsets_of_a_group(version: int) -> None:
    """The client has asked for it, and is told so in each partition; any other topic is cut out."""
    bench = PolicyBench(TopicRules, RULES)
    peer = replace(bench.peer, user="reader")
    partitions = [{"partition_indexes": [0], "name": each} for each in ("orders", "secret")]
    request = bench.request(
        "OffsetFetch", version, fields={"group_id": "g-1", "topics": partitions}
    )
    bench.ask(request, peer)

    def listed(code: int) -> dict[str, object]:
        found = [{"partition_index": 0, "error_code": each} for each in (0, code)]
        named = zip(("orders", "secret"), found, strict=True)
        return {"topics": [{"name": name, "partitions": [each]} for name, each in named]}

    refused = listed(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert bench.reply(request, fields=refused, peer=peer) is FORWARD
    other = listed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert isinstance(bench.reply(request, fields=other, peer=peer), Replace)
