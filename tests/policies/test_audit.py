"""audit: the names in administrative requests, and what came of them; nothing else of a body."""

from uuid import UUID

import pytest

from policies import audit
from policies.api import FORWARD, Outcome, Reject
from policies.audit import MAX_DONE, MAX_NAMES, Audit
from policies.audit_facts import AuditFacts, AuditItem
from policies.limits import Limits
from policies.testing import PolicyBench
from policies.testing.policy_bench import BenchEntry
from policies.testing.watched_calls import reachable_objects
from tests.support.messages.every_case import for_each
from wire import reply_steps, request_names
from wire.apis import ADMINISTRATIVE, OFFERED, ApiKey, name_of
from wire.errors import ErrorCode


def told(bench: PolicyBench, request, **reply) -> AuditFacts:
    """The facts after a whole request."""
    assert bench.ask(request) is FORWARD
    assert bench.reply(request, **reply) is FORWARD
    assert not bench.reporter.errors
    return request.audited


@for_each(range(2, 8))
def test_a_line_has_the_topics_and_what_failed(version):
    """In every version of CreateTopics that the codec knows."""
    bench = PolicyBench(Audit)
    request = bench.request("CreateTopics", version, topics=["orders", "carts"])
    failed = {
        "topics": [
            {"name": "orders", "error_code": ErrorCode.TOPIC_ALREADY_EXISTS},
            {"name": "carts"},
        ]
    }
    errors = (AuditItem("orders", None, "TOPIC_ALREADY_EXISTS"),)
    assert told(bench, request, fields=failed) == AuditFacts(
        ("orders", "carts"), (), errors, done=(AuditItem("carts", None),)
    )


def test_all_done_is_an_empty_list_and_unknown_is_none():
    """A request whose reply never came has no errors, and its names."""
    bench = PolicyBench(Audit)
    assert told(bench, bench.request("DeleteGroups", 2)).errors == ()
    request = bench.request("CreatePartitions", topics=["orders"])
    bench.ask(request)
    bench.complete(request, Outcome.DISCONNECTED)
    assert request.audited == AuditFacts(("orders",), ())


def test_each_failure_has_the_name_of_what_failed():
    """A partition has its number, an item without a name its place, an id the name that Metadata has told."""
    bench = PolicyBench(Audit)
    request = bench.request(
        "OffsetDelete", fields={"group_id": "payments", "topics": [{"name": "orders"}]}
    )
    partition = {"partition_index": 3, "error_code": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    reply = {
        "topics": [{"name": "orders", "partitions": [partition]}],
        "error_code": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    facts = told(bench, request, fields=reply)
    assert (facts.topics, facts.groups) == (("orders",), ("payments",))
    assert set(facts.errors or ()) == {
        AuditItem("orders", 3, "GROUP_SUBSCRIBED_TO_TOPIC"),
        AuditItem("", None, "GROUP_ID_NOT_FOUND"),
    }

    bench = PolicyBench(Audit)
    results = [{}, {"error_code": ErrorCode.INVALID_REQUEST}, {}]
    facts = told(bench, bench.request("CreateAcls"), fields={"results": results})
    assert facts.errors == (AuditItem("1", None, "INVALID_REQUEST"),)

    bench = PolicyBench(Audit)
    known, unknown = bench.topic_id("orders"), UUID(int=5)
    fields = {
        "topics": [
            {"name": None, "topic_id": UUID(bytes=known)},
            {"name": None, "topic_id": unknown},
        ]
    }
    facts = told(bench, bench.request("DeleteTopics", 6, fields=fields))
    assert facts.topics == ("orders", "AAAAAAAAAAAAAAAAAAAABQ")


def test_a_line_is_bounded():
    """A hundred names of 255 characters each; the rest is counted."""
    bench = PolicyBench(Audit)
    names = [f"{place:03}" + "x" * 300 for place in range(MAX_NAMES + 7)]
    failed = [{"name": name, "error_code": ErrorCode.INVALID_TOPIC_EXCEPTION} for name in names]
    facts = told(bench, bench.request("CreateTopics", 7, topics=names), fields={"topics": failed})
    assert facts.topics is not None
    assert facts.errors is not None
    assert (len(facts.topics), len(facts.errors)) == (MAX_NAMES, MAX_NAMES)
    assert facts.left_out == {"topics": 7, "errors": 7}
    assert {len(name) for name in facts.topics} == {255}
    assert {len(item.name) for item in facts.errors} == {255}


def test_no_number_of_failures_hides_what_was_done():
    """The victim is one of a thousand names, and the others do not exist."""
    bench = PolicyBench(Audit)
    names = [f"none-{place}" for place in range(999)]
    names.insert(500, "victim")
    unknown = {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    replies = [{"name": name, **({} if name == "victim" else unknown)} for name in names]
    request = bench.request("DeleteTopics", 5, topics=names)
    facts = told(bench, request, fields={"responses": replies})
    assert facts.done == (AuditItem("victim", None),)
    assert not facts.has_failed
    assert facts.left_out == {"topics": 1000 - MAX_NAMES, "errors": 999 - MAX_NAMES}


def test_what_was_done_is_bounded_and_counted():
    """A failure of the whole request, or of every item, has no item that was done."""
    bench = PolicyBench(Audit)
    names = [f"topic-{place}" for place in range(MAX_DONE + 3)]
    request = bench.request("DeleteTopics", 5, topics=names)
    facts = told(bench, request, fields={"responses": [{"name": name} for name in names]})
    assert facts.done is not None
    assert len(facts.done) == MAX_DONE
    assert facts.left_out == {"topics": len(names) - MAX_NAMES, "done": 3}
    failed = [{"name": "a", "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}]
    request = bench.request("DeleteTopics", 5, topics=["a"])
    facts = told(bench, request, fields={"responses": failed})
    assert (facts.done, facts.has_failed) == ((), True)


@pytest.mark.parametrize("body", [b"\xff" * 30, b"\x00\x00\x7f\xff", b""])
def test_a_request_or_reply_that_cannot_be_read_passes_and_says_why(body):
    """The audit log is no guard: a broker answers such a request."""
    bench = PolicyBench(Audit)
    facts = told(bench, bench.request("CreateTopics", 7, body=body))
    assert (facts.topics, facts.errors) == (None, ())
    assert facts.unread
    facts = told(bench, bench.request("CreateTopics", 7, topics=["orders"]), body=body)
    assert (facts.topics, facts.errors) == (("orders",), None)
    assert facts.unread


def test_a_request_that_another_policy_refuses_has_names_if_audit_is_first():
    """And the errors of the reply that Sluice makes."""
    forbids = BenchEntry(Limits, {"forbidden_apis": ["DeleteTopics"]}, "limits")
    bench = PolicyBench(Audit, then=[forbids])
    request = bench.request("DeleteTopics", 6, topics=["orders"])
    assert isinstance(bench.ask(request), Reject)
    bench.complete(request, Outcome.ANSWERED)
    assert request.audited == AuditFacts(("orders",), ())


def test_it_asks_for_administrative_apis_only():
    """Every other request costs nothing; bodies only where names stand in them."""
    bench = PolicyBench(Audit)
    assert set(Audit.apis) <= ADMINISTRATIVE
    assert bench.chain.hooks(ApiKey.PRODUCE).on_complete is None
    assert bench.ask(bench.request("AlterUserScramCredentials")) is FORWARD
    assert bench.chain.hooks(ApiKey.ALTER_USER_SCRAM_CREDENTIALS).need == 0


def test_it_keeps_nothing_of_requests_that_have_ended():
    """By a reply, a disconnect or a refusal."""
    bench = PolicyBench(Audit)
    before = reachable_objects(bench.policy)
    for outcome in Outcome:
        request = bench.request("CreateTopics", topics=["orders"])
        bench.ask(request)
        bench.complete(request, outcome)
    assert reachable_objects(bench.policy) == before


def test_no_request_and_no_reply_waits_for_what_reads_it():
    """It is made with the entry, for each API and version that the policy hears, and not in a hook."""
    for cache in (reply_steps.steps_of, audit._prepare):
        cache.cache_clear()
    request_names._READERS.clear()
    bench = PolicyBench(Audit)
    made = reply_steps.steps_of.cache_info().misses, len(request_names._READERS)
    for key in sorted(Audit.apis):
        for version in range(OFFERED[key][0], OFFERED[key][1] + 1):
            request = bench.request(name_of(key), version, body=bytes(9))
            told(bench, request, body=bytes(9))
    assert (reply_steps.steps_of.cache_info().misses, len(request_names._READERS)) == made


def test_unknown_is_not_empty_and_the_whole_request_has_no_name():
    """A line without facts says nothing of names and errors; one with none says that there are none."""
    nothing = AuditFacts()
    assert (nothing.topics, nothing.groups, nothing.errors) == (None, None, None)
    assert not nothing.left_out
    assert AuditFacts(errors=()) != AuditFacts()

    assert not AuditItem("", None, "INVALID_REQUEST").name
    assert AuditItem("orders", 0, "INVALID_REQUEST").partition == 0
    assert not AuditItem("orders", 0).error
