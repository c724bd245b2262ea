"""access: a topic is not created because a client without the right asks for its metadata."""

import pytest

from policies import messages
from policies.access.books import MAX_ASKED
from policies.access.policy import Access
from policies.api import FORWARD, Forward, Replace
from policies.denial import Deny
from policies.testing import BenchRequest, PolicyBench
from tests.support.core.access_rules import BOB, bob_may, refused
from wire.errors import ErrorCode

READS = bob_may(topics={"a*": ["read"], "mine": ["read", "create"]})
MISSING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def codes(bench: PolicyBench, request: BenchRequest, **missing: int) -> dict[str, int]:
    """Return the codes by topic that the client reads, if the broker has sent these."""
    topics = [{"name": name, "error_code": code} for name, code in missing.items()]
    nodes = [{"node_id": 1, "host": "h", "port": 1}]
    sent = {"topics": topics, "brokers": nodes, "cluster_id": "c"}
    verdict = bench.reply(request, fields=sent, peer=BOB)
    if verdict is FORWARD:
        return missing
    assert isinstance(verdict, Replace)
    reply = messages.decode_response(request.api, verdict.body)
    found = messages.structs(reply, "topics")
    return {
        messages.value(each, "name", str, ""): messages.value(each, "error_code", int, 0)
        for each in found
    }


@pytest.mark.parametrize("version", range(4, 14))
def test_a_client_that_may_not_create_gets_kafkas_code_for_a_missing_topic(version: int) -> None:
    """The request says that nothing is created; a topic that is there is shown."""
    bench = PolicyBench(Access, READS)
    fields = {"allow_auto_topic_creation": True}
    request = bench.request("Metadata", version, topics=["a1", "a2"], fields=fields)
    if version >= 10:  # by name
        named = [{"topic_id": bytes(16), "name": name} for name in ("a1", "a2")]
        request = bench.request("Metadata", version, fields={**fields, "topics": named})
    verdict = bench.ask(request, BOB)
    assert isinstance(verdict, Forward)
    (patch,) = verdict.patches
    body = bytearray(request.sent_body)
    assert body[patch.offset] == 1
    body[patch.offset : patch.offset + 1] = patch.data
    read = messages.decode_request(request.api, bytes(body))
    assert messages.value(read, "allow_auto_topic_creation", bool, True) is False
    assert codes(bench, request, a1=0, a2=MISSING) == {"a1": 0, "a2": TOPIC}


def test_a_client_that_may_create_creates() -> None:
    """Its request is not changed, and what is missing is told as the broker tells it."""
    bench = PolicyBench(Access, READS)
    request = bench.request("Metadata", 9, topics=["mine"])
    assert bench.ask(request, BOB) is FORWARD
    assert codes(bench, request, mine=MISSING) == {"mine": MISSING}


def test_a_client_that_asks_for_no_creation_learns_what_is_missing() -> None:
    """As in Kafka, where the right is not asked for then."""
    bench = PolicyBench(Access, READS)
    fields = {"allow_auto_topic_creation": False}
    request = bench.request("Metadata", 9, topics=["a1"], fields=fields)
    assert bench.ask(request, BOB) is FORWARD
    assert codes(bench, request, a1=MISSING) == {"a1": MISSING}


def test_where_brokers_create_nothing_a_missing_topic_is_missing() -> None:
    """And the request is still told not to create."""
    bench = PolicyBench(Access, {**READS, "auto_create_topics_enable": False})
    request = bench.request("Metadata", 9, topics=["a1"])
    assert isinstance(bench.ask(request, BOB), Forward)
    assert codes(bench, request, a1=MISSING) == {"a1": MISSING}


@pytest.mark.parametrize("version", range(4))
def test_an_old_request_that_cannot_say_so_is_refused(version: int) -> None:
    """Below v4 each Metadata creates; who may create may still ask."""
    bench = PolicyBench(Access, READS)
    request = bench.request("Metadata", version, topics=["a1", "mine", "x"])
    assert refused(bench, request) == {"a1": ErrorCode.UNSUPPORTED_VERSION, "x": TOPIC}


def test_a_forbidden_topic_among_others_is_refused_and_not_created() -> None:
    """Denied and patched at once."""
    bench = PolicyBench(Access, READS)
    request = bench.request("Metadata", 9, topics=["a1", "x"])
    verdict = bench.ask(request, BOB)
    assert isinstance(verdict, Forward)
    assert verdict.patches
    assert [each.codes for each in verdict.denials] == [{"x": TOPIC}]


def test_what_is_noted_of_requests_in_flight_is_bounded() -> None:
    """A client that never reads its replies leaves MAX_ASKED notes, and none when it has gone."""
    bench = PolicyBench(Access, READS)
    policy = bench.policy
    assert isinstance(policy, Access)
    for _ in range(MAX_ASKED + 50):
        bench.ask(bench.request("Metadata", 9, topics=["a1"]), BOB)
    assert len(policy.books.client(BOB).asked) == MAX_ASKED
    bench.disconnect(BOB)
    assert policy.books.clients == {}


def test_a_forbidden_topic_that_was_asked_for_by_an_unknown_id_keeps_its_name_to_itself() -> None:
    """The id passes, because the reply tells the name; what it tells is judged."""
    bench = PolicyBench(Access, READS)
    topic_id = b"\1" * 16
    fields = {"topics": [{"topic_id": topic_id, "name": None}]}
    request = bench.request("Metadata", 12, fields=fields)
    assert not isinstance(bench.ask(request, BOB), Deny)
    sent = {"topics": [{"name": "secret", "topic_id": topic_id, "error_code": 0}]}
    verdict = bench.reply(request, fields=sent, peer=BOB)
    assert isinstance(verdict, Replace)
    assert b"secret" not in verdict.body
    (topic,) = messages.structs(messages.decode_response(request.api, verdict.body), "topics")
    assert messages.value(topic, "error_code", int, 0) == TOPIC
