"""topics: which topics and groups a client may use, for every API that names them."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from policies import listings
from policies.api import FORWARD, Forward, Reject
from policies.denial import Deny
from policies.testing import PolicyBench
from policies.topics import MAX_CLIENTS, TopicRules
from tests.support.messages.every_case import for_each
from wire.apis import OFFERED, ApiKey, name_of
from wire.authorization import Ask, Operation, ResourceType
from wire.errors import ErrorCode
from wire.request_layouts import names_anything

TOPIC, GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_ID
RULES: Mapping[str, object] = {
    "rules": [
        {"effect": "deny", "topics": ["secret", "top-*"]},
        {"user": "reader", "topics": ["*"], "groups": ["g-*"], "access": ["read"]},
        {"user": "writer", "topics": ["orders"], "access": ["write"]},
        {"user": "owner", "topics": ["*"], "groups": ["*"]},
    ]
}
READS = ["Fetch", "OffsetCommit", "OffsetFetch", "TxnOffsetCommit"]
WRITES = ["Produce", "AddPartitionsToTxn"]
MANAGES = ["CreateTopics", "DeleteTopics", "CreatePartitions", "DeleteRecords", "OffsetDelete"]
GROUP_APIS = {"OffsetCommit": None, "OffsetFetch": 7, "TxnOffsetCommit": None, "OffsetDelete": None}
SEES = ["Metadata", "ListOffsets", "OffsetForLeaderEpoch", "DescribeTopicPartitions"]


def denied(bench: PolicyBench, user: str, api: str, *topics: str, **more: object) -> object:
    """Return the code of the refusal, or the codes by topic; None if the request passes whole."""
    peer = replace(bench.peer, user=user)
    request = bench.request(api, topics=topics, **more)  # type: ignore[arg-type]
    verdict = bench.ask(request, peer)
    if isinstance(verdict, Reject):
        assert verdict.message
        return verdict.code
    if isinstance(verdict, Forward):
        denials = verdict.denials
        assert all(each.policy == "bench" for each in denials)
    else:
        assert isinstance(verdict, Deny)
        denials = (verdict,)
    assert all(each.message for each in denials)
    return {key: code for each in denials for key, code in each.codes.items()} or None


@for_each([*READS, *WRITES, *MANAGES, *SEES])
def test_a_rule_decides_by_user_topic_and_access(api: str) -> None:
    """The first rule that fits decides; where none fits, the default does."""
    bench = PolicyBench(TopicRules, RULES)
    more: dict[str, object] = {}
    if api in GROUP_APIS:
        more = {"fields": {"group_id": "g-1"}, "version": GROUP_APIS[api]}

    for user, allowed in {
        "reader": [*READS, *SEES],
        "writer": [*WRITES, *SEES],
        "owner": [*READS, *WRITES, *MANAGES, *SEES],
        "other": [],
    }.items():
        got = denied(bench, user, api, "orders", **more)
        assert (got is None) == (api in allowed), (user, got)
    for topic in ("secret", "top-1"):
        assert denied(bench, "owner", api, topic, **more) in (TOPIC, {topic: TOPIC})


def test_the_rest_of_a_request_passes() -> None:
    """Only the topics that no rule allows are denied."""
    bench = PolicyBench(TopicRules, RULES)

    assert denied(bench, "owner", "Produce", "a", "secret", "b") == {"secret": TOPIC}
    assert denied(bench, "writer", "Produce", "orders", "a", "b") == {"a": TOPIC, "b": TOPIC}


def test_an_id_without_a_name_is_refused_until_the_client_has_asked_for_it() -> None:
    """Metadata passes: its reply tells the name. No version of a request slips past by an id."""
    bench = PolicyBench(TopicRules, RULES)
    for api, version in (("Produce", 13), ("Fetch", 13), ("ShareFetch", None)):
        request = bench.request(api, version, topics=["secret"])
        ident = bench.topic_id("secret")
        owner = replace(bench.peer, user="owner")
        assert bench.ask(request, owner) == Deny({"secret": TOPIC}), api
        bench.host.topics.clear()
        assert bench.ask(request, owner) == Deny({ident: UNKNOWN}), api
    request = bench.request("Metadata", 12, fields={"topics": ({"topic_id": bytes(range(16))},)})
    assert bench.ask(request, replace(bench.peer, user="owner")) is FORWARD


@pytest.mark.parametrize(
    ("api", "fields", "passing"),
    [
        ("Heartbeat", {"group_id": "g-1"}, ["reader", "owner"]),
        ("JoinGroup", {"group_id": "g-1"}, ["reader", "owner"]),
        ("ConsumerGroupHeartbeat", {"group_id": "h"}, ["owner"]),
        ("DeleteGroups", {"groups_names": ("g-1",)}, ["owner"]),
        ("DescribeGroups", {"groups": ("g-1",)}, ["reader", "owner"]),
        ("AddOffsetsToTxn", {"group_id": "h"}, ["owner"]),
    ],
)
def test_a_group_is_judged_as_a_topic_is(
    api: str, fields: dict[str, object], passing: list[str]
) -> None:
    """A request of a group that no rule allows is refused whole."""
    bench = PolicyBench(TopicRules, RULES)
    for user in ("reader", "writer", "owner", "other"):
        got = denied(bench, user, api, fields=fields)
        assert got == (None if user in passing else GROUP)


def asked(group: str) -> Ask:
    """Return what these requests ask for about a group."""
    return Ask(ResourceType.GROUP, group, Operation.DESCRIBE, GROUP)


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        ("DescribeGroups", {"groups": ("g-1", "h", "i")}),
        ("OffsetFetch", {"groups": [{"group_id": each, "topics": None} for each in "hig"]}),
        ("FindCoordinator", {"key_type": 0, "coordinator_keys": ("h", "g-1", "i")}),
    ],
)
def test_some_of_several_groups_are_denied(api: str, fields: dict[str, object]) -> None:
    """The others pass, as in Kafka; a client of which no group is allowed is refused whole."""
    rules = {"rules": [{"user": "reader", "groups": ["g*"], "topics": ["*"]}]}
    bench = PolicyBench(TopicRules, rules)
    request = bench.request(api, fields=fields)
    reader = replace(bench.peer, user="reader")
    verdict = bench.ask(request, reader)
    assert verdict == Deny({asked("h"): GROUP, asked("i"): GROUP})
    assert bench.ask(request, replace(bench.peer, user="other")).code == GROUP  # type: ignore[union-attr]


def test_the_topics_of_an_allowed_group_are_judged_beside_a_denied_group() -> None:
    """Else a denied group would hide a denied topic from its judgement."""
    bench = PolicyBench(TopicRules, RULES)
    topics = [{"name": "secret", "partition_indexes": [0]}]
    groups = [{"group_id": "g-1", "topics": topics}, {"group_id": "h", "topics": None}]
    request = bench.request("OffsetFetch", 8, fields={"groups": groups})
    verdict = bench.ask(request, replace(bench.peer, user="reader"))
    assert verdict == Deny({"secret": TOPIC, asked("h"): GROUP})


def test_a_request_about_all_topics_needs_the_right_to_manage_all() -> None:
    """Unless it only lists them. A denied topic takes that right away."""
    rights = {"rules": [{"user": "owner", "topics": ["*"]}, {"topics": ["a"]}]}
    bench = PolicyBench(TopicRules, rights)
    every = {"topic_partitions": None}
    assert denied(bench, "owner", "ElectLeaders", fields=every) is None
    assert denied(bench, "other", "ElectLeaders", fields=every) == TOPIC
    assert denied(bench, "other", "Metadata", fields={"topics": None}) is None
    first = {"rules": [{"effect": "deny", "topics": ["a"]}, {"topics": ["*"]}]}
    assert denied(PolicyBench(TopicRules, first), "owner", "ElectLeaders", fields=every) == TOPIC
    open_to_all = {
        "rules": [{"effect": "deny", "topics": ["a"], "access": ["read"]}],
        "default": "allow",
    }
    assert denied(PolicyBench(TopicRules, open_to_all), "x", "ElectLeaders", fields=every) is None


def test_every_api_that_names_topics_or_groups_is_judged() -> None:
    """For a client without rights each one is refused or denied, if it names a topic or a group."""
    bench = PolicyBench(TopicRules, RULES)
    policy = bench.policy
    assert isinstance(policy, TopicRules)
    named = {key for key in OFFERED if names_anything(key)}
    assert policy.apis == named | listings.LISTED
    judged = set()
    for key in named:
        try:
            got = denied(bench, "other", name_of(key), "orders")
        except ValueError:  # it names groups only
            continue
        assert got is not None, name_of(key)
        judged.add(key)
    assert {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.DELETE_RECORDS} <= judged
    assert len(judged) > 20


def test_denials_are_counted_and_clients_are_forgotten() -> None:
    """However many client ids come, their rules are remembered for a bounded number."""
    bench = PolicyBench(TopicRules, RULES)
    policy = bench.policy
    assert isinstance(policy, TopicRules)
    request = bench.request("Produce", topics=["orders"])
    for number in range(MAX_CLIENTS + 2):
        bench.ask(request, replace(bench.peer, client_id=f"c-{number}"))
    assert len(policy._steps) <= MAX_CLIENTS
    assert sum(policy._denied.series.values()) == MAX_CLIENTS + 2
