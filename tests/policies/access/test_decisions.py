"""access: who is refused what, in requests that name several things, the same thing twice, or nothing."""

from dataclasses import replace

import pytest

from policies import messages
from policies.access.policy import MAX_WAIT_MS, Access
from policies.api import FORWARD, TOPIC_NAMES, Forward, Hold, Reject, Respond
from policies.custom_metrics import PolicyCounter
from policies.denial import Deny
from policies.testing import PolicyBench
from tests.support.core.access_rules import BOB, STRANGER, bob_may, refusal_of, refused
from wire import codec
from wire.errors import ErrorCode
from wire.fetch import head_offsets, read_share_session
from wire.primitives import INT32
from wire.topic_patterns import pattern_at

TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
READS = bob_may(topics={"a*": ["read"], "w": ["write"]}, groups={"g": ["read"]})


@pytest.mark.parametrize(("api", "allowed"), [("Fetch", "a1"), ("Produce", "w")])
@pytest.mark.parametrize("version", [4, 13])
def test_the_rest_of_a_request_passes(api: str, allowed: str, version: int) -> None:
    """Only what no rule allows is denied, by name and by id."""
    bench = PolicyBench(Access, READS)
    assert refused(bench, bench.request(api, version, topics=[allowed])) is None
    mixed = bench.request(api, version, topics=["x", allowed, "y"])
    assert refused(bench, mixed) == {"x": TOPIC, "y": TOPIC}


def test_other_clients_have_no_right_of_bobs() -> None:
    """Another user, one whose name only the broker knows, and one without a name."""
    bench = PolicyBench(Access, READS)
    others = (
        STRANGER,
        replace(BOB, user="bobby"),
        replace(BOB, principal_source="unknown", proof=""),
        replace(BOB, user="UNKNOWN", principal_source="unknown", proof=""),
        replace(STRANGER, client_id="bob"),
    )
    for place, peer in enumerate(others):
        other = replace(peer, session_id=100 + place)
        assert refused(bench, bench.request("Fetch", topics=["a1"]), other) == {"a1": TOPIC}


def test_a_client_that_authenticates_again_as_another_is_judged_anew() -> None:
    """The connection stays; its rights do not."""
    bench = PolicyBench(Access, READS)
    assert refused(bench, bench.request("Fetch", topics=["a1"])) is None
    other = replace(BOB, user="eve")
    assert refused(bench, bench.request("Fetch", topics=["a1"]), other) == {"a1": TOPIC}
    assert refused(bench, bench.request("Fetch", topics=["a1"])) is None


def test_an_unknown_id_is_unknown_and_a_forbidden_one_forbidden() -> None:
    """Kafka's codes, once the broker was asked for the name."""
    bench, other = PolicyBench(Access, READS), PolicyBench(Access, READS)
    ident = other.topic_id("x")
    body = other.request("Fetch", 13, topics=["x"]).sent_body
    request = bench.request("Fetch", 13, body=body)
    held = bench.ask(request)
    assert isinstance(held, Hold)
    assert held.watch == TOPIC_NAMES
    assert bench.wake(TOPIC_NAMES) == 1
    assert refusal_of(bench.released[-1].verdict) == {ident: ErrorCode.UNKNOWN_TOPIC_ID}
    bench.topic_id("x")
    assert refused(bench, bench.request("Fetch", 13, body=body)) == {"x": TOPIC}


def test_a_name_that_comes_twice_is_judged_once_and_refused_everywhere() -> None:
    """Whatever else is said of it in the same request."""
    bench = PolicyBench(Access, READS)
    items = [{"name": name, "num_partitions": n} for n, name in enumerate(["x", "a1", "x"])]
    request = bench.request("CreateTopics", 4, fields={"topics": items})
    assert refused(bench, request) == {"x": TOPIC, "a1": TOPIC}
    bench = PolicyBench(Access, bob_may(topics={"a1": ["create"]}))
    assert refused(bench, bench.request("CreateTopics", 4, fields={"topics": items})) == {
        "x": TOPIC
    }


@pytest.mark.parametrize("name", ["", "a" * 249, "a" * 32_000, "*", "a*", "\0", "\x1b[31m", "ü"])
def test_hostile_names_get_what_their_characters_say(name: str) -> None:
    """No name is a pattern, and none is remembered that is longer than a topic's."""
    bench = PolicyBench(Access, READS)
    request = bench.request("Metadata", 4, fields={"topics": [{"name": name}]})
    found = refused(bench, request)
    assert found == (None if name.startswith("a") else {name: TOPIC})


def test_a_pattern_needs_every_topic() -> None:
    """The broker resolves it, and does not know the rules."""
    fields = {"group_id": "g", "subscribed_topic_regex": "a.*", "subscribed_topic_names": None}
    some = bob_may(topics={"a*": ["read"]}, groups={"g": ["read"]})
    every = bob_may(topics={"*": ["describe"]}, groups={"g": ["read"]})
    for settings, code in ((some, TOPIC), (every, None)):
        bench = PolicyBench(Access, settings)
        assert refused(bench, bench.request("ConsumerGroupHeartbeat", 1, fields=fields)) == code
    denied = {"who": ["bob"], "effect": "deny", "topics": {"pii.*": ["describe"]}}
    bench = PolicyBench(Access, {"rules": [*every["rules"], denied]})  # type: ignore[misc]
    assert refused(bench, bench.request("ConsumerGroupHeartbeat", 1, fields=fields)) == TOPIC


def test_a_pattern_selects_no_internal_topic() -> None:
    """The broker gets one without them; what may select them is refused to whoever may not describe them all."""
    fields = {"group_id": "g", "subscribed_topic_regex": "^.*", "subscribed_topic_names": None}
    every = {"topics": {"*": ["describe"]}, "groups": {"g": ["read"]}}

    def said(pattern: str, **more: object) -> object:
        rules = {**every, "topics": {**every["topics"], **more}}
        bench = PolicyBench(Access, bob_may(**rules))
        named = {**fields, "subscribed_topic_regex": pattern}
        verdict = bench.ask(bench.request("ConsumerGroupHeartbeat", 1, fields=named), BOB)
        if isinstance(verdict, Forward) and verdict.body is not None:
            return pattern_at(verdict.body)[0]
        return refusal_of(verdict)

    assert said("^.*") == "[^_].*|_[^_].*|_"
    assert said("orders.*") is None
    assert said("__.*") == said("[^a].*") == TOPIC
    assert said("__.*", **{"__*": ["describe"]}) is None
    assert said("__.*", **{"__c*": ["describe"]}) == TOPIC


def test_a_streams_application_needs_to_create_its_internal_topics() -> None:
    """A broker without an authorizer makes them for whoever asks."""
    topology = {
        "epoch": 0,
        "subtopologies": [
            {
                "subtopology_id": "0",
                "source_topics": ["a1"],
                "state_changelog_topics": [{"name": "app-store-changelog"}],
            }
        ],
    }
    fields = {"group_id": "g", "topology": topology}
    rights: dict[str, list[str]] = {"a1": ["read"], "app-*": ["read", "write"]}
    for more, code in (([], TOPIC), (["create"], None)):
        rights["app-*"] = [*rights["app-*"], *more]
        bench = PolicyBench(Access, bob_may(topics=rights, groups={"g": ["read"]}))
        assert refused(bench, bench.request("StreamsGroupHeartbeat", 0, fields=fields)) == code


def test_a_write_on_any_topic_gives_idempotent_writing() -> None:
    """And so does the act; reading does not."""
    for settings, code in (
        (bob_may(topics={"a": ["read"]}), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (bob_may(topics={"a": ["write"]}), None),
        (bob_may(cluster=["idempotent-write"]), None),
    ):
        bench = PolicyBench(Access, settings)
        request = bench.request("InitProducerId", 4, fields={"transactional_id": None})
        assert refused(bench, request) == code


@pytest.mark.parametrize("version", [0, 1, 2])
def test_log_dirs_are_refused_by_an_empty_list_where_there_is_no_place_for_a_code(
    version: int,
) -> None:
    """As Kafka answers below v3."""
    bench = PolicyBench(Access, READS)
    null = b"\0\0" if version == 2 else b"\xff" * 4
    request = bench.request("DescribeLogDirs", version, body=null)
    assert refused(bench, request) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    verdict = bench.ask(request, BOB)
    assert isinstance(verdict, Respond)
    if version:  # the codec does not know v0
        reply = codec.decode_response(request.api, verdict.body)
        assert messages.structs(reply, "results") == ()


def test_a_consumer_waits_no_longer_than_a_right_may_outlive_its_rule() -> None:
    """Fetch and ShareFetch: the wait is cut to a second, also in a request that is denied in part."""
    bench = PolicyBench(Access, READS)
    for topics, denied in ((["a1"], 0), (["a1", "x"], 1)):
        for version in (4, 15):
            request = bench.request("Fetch", version, topics=topics, fields={"max_wait": 30_000})
            verdict = bench.ask(request, BOB)
            assert isinstance(verdict, Forward)
            assert len(verdict.denials) == denied
            (patch,) = verdict.patches
            assert patch.offset == head_offsets(version).max_wait_ms
            assert patch.data == INT32.pack(MAX_WAIT_MS)
    short = bench.request("Fetch", topics=["a1"], fields={"max_wait": MAX_WAIT_MS})
    assert bench.ask(short, BOB) is FORWARD
    fields = {"group_id": "g", "member_id": "m", "max_wait": 30_000, "share_session_epoch": 0}
    share = bench.request("ShareFetch", topics=["a1"], fields=fields)
    verdict = bench.ask(share, BOB)
    assert isinstance(verdict, Forward)
    (patch,) = verdict.patches
    body = bytearray(share.sent_body)
    body[patch.offset : patch.offset + 4] = patch.data
    assert read_share_session(body).max_wait_ms == MAX_WAIT_MS


def test_nothing_is_changed_in_mode_observe() -> None:
    """No wait is cut, no session ends, no creation is taken away: what would be refused is only counted."""
    bench = PolicyBench(Access, READS, mode="observe")
    fields = {"max_wait": 30_000}
    assert bench.ask(bench.request("Fetch", topics=["a1"], fields=fields), BOB) is FORWARD
    share = {"group_id": "g", "member_id": "m", "share_session_epoch": 5}
    assert bench.ask(bench.request("ShareFetch", fields=share), BOB) is FORWARD
    creating = bench.request("Metadata", 4, topics=["a1"])
    assert bench.ask(creating, BOB) is FORWARD
    assert bench.reporter.observed == []
    assert bench.ask(bench.request("Fetch", topics=["x"]), BOB) is FORWARD
    ((_, verdict),) = bench.reporter.observed
    assert isinstance(verdict, Deny | Reject)


def test_refusals_are_counted_by_kind() -> None:
    """What an operator sees of them."""
    bench = PolicyBench(Access, READS)
    bench.ask(bench.request("Fetch", topics=["x", "y"]), BOB)
    bench.ask(bench.request("Heartbeat", fields={"group_id": "other"}), BOB)
    bench.ask(bench.request("EndTxn", fields={"transactional_id": "t"}), BOB)
    bench.ask(bench.request("CreateAcls"), BOB)
    counter = bench.host.metrics.by_name["denied_access"]
    assert isinstance(counter, PolicyCounter)
    assert counter.series == {
        ("topic",): 2,
        ("group",): 1,
        ("transactional_id",): 1,
        ("cluster",): 1,
    }
