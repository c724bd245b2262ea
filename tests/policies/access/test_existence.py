"""access: before it refuses a part of DeleteTopics or AddPartitionsToTxn it asks which topics exist."""

from typing import Any
from uuid import UUID

import pytest

from policies.access.policy import Access
from policies.api import Forward, Hold
from policies.custom_metrics import PolicyCounter
from policies.testing import BenchRequest, PolicyBench
from policies.topics_question import MAX_NAMES, TopicsQuestion
from tests.support.core.access_rules import BOB, bob_may, refusal_of, refused
from wire.errors import ErrorCode
from wire.topic_existence import ExistingTopic

TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MISSING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
GONE = ErrorCode.UNKNOWN_TOPIC_ID
RULES = bob_may(
    topics={"seen*": ["describe"], "mine*": ["delete"], "w*": ["write"]},
    transactions={"t": ["write"]},
)
NO_ID = bytes(16)


def question(bench: PolicyBench, request: BenchRequest) -> TopicsQuestion:
    """Return what the broker is asked before this request is judged."""
    held = bench.ask(request, BOB)
    assert isinstance(held, Hold)
    assert isinstance(held.watch, TopicsQuestion)
    return held.watch


def answered(bench: PolicyBench, request: BenchRequest, **found: ExistingTopic | None) -> object:
    """Return what is refused after the broker has said this."""
    asked = question(bench, request)
    asked.found = found
    assert bench.wake(asked) == 1
    return refusal_of(bench.released[-1].verdict)


def adding(bench: PolicyBench, topics: dict[str, list[int]], version: int = 3) -> BenchRequest:
    """Return an AddPartitionsToTxn of bob's transaction."""
    named = [{"name": name, "partitions": each} for name, each in topics.items()]
    fields: dict[str, Any] = {"v3_and_below_transactional_id": "t", "v3_and_below_topics": named}
    return bench.request("AddPartitionsToTxn", version, fields=fields)


def deleting(bench: PolicyBench, *topics: str | UUID) -> BenchRequest:
    """Return a DeleteTopics v6 of names and ids."""
    items = [
        {"name": None, "topic_id": each} if isinstance(each, UUID) else {"name": each}
        for each in topics
    ]
    return bench.request("DeleteTopics", 6, fields={"topics": items})


@pytest.mark.parametrize("version", range(1, 6))
def test_a_missing_topic_that_may_be_described_is_missing(version: int) -> None:
    """One that may not be described is forbidden, whether it exists or not: the broker is not asked for it."""
    bench = PolicyBench(Access, RULES)
    names = ["seen1", "seen2", "hidden", "mine"]
    request = bench.request("DeleteTopics", version, fields={"topic_names": names})
    asked = question(bench, request)
    assert (asked.names, asked.with_ids) == (("seen1", "seen2"), False)
    asked.found = {"seen1": ExistingTopic(NO_ID, 1), "seen2": None, "hidden": None}
    assert bench.wake(asked) == 1
    meant = {"seen1": TOPIC, "seen2": MISSING, "hidden": TOPIC}
    assert refusal_of(bench.released[-1].verdict) == meant


def test_an_id_that_no_topic_has_any_more_is_unknown() -> None:
    """Sluice remembers its name. A topic of that name may have another id now; what is said of the id stands first."""
    bench = PolicyBench(Access, RULES)
    known = {name: bench.topic_id(name) for name in ("seen", "gone", "again")}
    request = deleting(bench, *(UUID(bytes=each) for each in known.values()))
    asked = question(bench, request)
    assert (set(asked.names), asked.with_ids) == (set(known), True)
    there = ExistingTopic(known["seen"], 1), None, ExistingTopic(b"x" * 16, 1)
    asked.found = dict(zip(known, there, strict=True))
    bench.wake(asked)
    meant = {known["seen"]: TOPIC, known["gone"]: GONE, known["again"]: GONE}
    assert refusal_of(bench.released[-1].verdict) == meant | dict.fromkeys(known, TOPIC)


def test_what_may_be_deleted_or_nothing_may_be_told_of_is_not_asked_for() -> None:
    """An ordinary request waits for nothing, and neither does one that is forbidden altogether."""
    bench = PolicyBench(Access, RULES)
    for request, meant in (
        (deleting(bench, "mine1", "mine2"), None),
        (deleting(bench, "mine1", "hidden"), {"hidden": TOPIC}),
        (deleting(bench, "seenü"), {"seenü": TOPIC}),
        (adding(bench, {"w": [0]}), None),
        (adding(bench, {"hidden": [0]}), {"hidden": TOPIC}),
        (bench.request("DeleteRecords", 2, topics=["seen"]), {"seen": TOPIC}),
    ):
        verdict = bench.ask(request, BOB)
        assert not isinstance(verdict, Hold)
        assert refusal_of(verdict) == meant


@pytest.mark.parametrize("version", range(4))
def test_a_missing_partition_beside_a_refused_topic_is_missing(version: int) -> None:
    """The core answers the rest as not attempted. Of the refused topic nothing is asked."""
    bench = PolicyBench(Access, RULES)
    request = adding(bench, {"w1": [0, 1, 2, -1], "no": [0], "w2": [0], "w3": [0]}, version)
    found = {"w1": ExistingTopic(NO_ID, 2), "w2": None}
    meant = {"no": TOPIC, "w2": MISSING, ("w1", 2): MISSING, ("w1", -1): MISSING}
    assert answered(bench, request, **found) == meant


def test_without_an_answer_the_refusal_stays() -> None:
    """At the deadline, and for names of which the broker tells nothing."""
    bench = PolicyBench(Access, RULES)
    assert answered(bench, deleting(bench, "seen", "mine")) == {"seen": TOPIC}
    question(bench, deleting(bench, "seen", "mine"))
    bench.advance(5_001)
    verdict = bench.released[-1].verdict
    assert isinstance(verdict, Forward)
    assert refusal_of(verdict) == {"seen": TOPIC}


def test_a_refusal_is_counted_once() -> None:
    """Before the broker is asked."""
    bench = PolicyBench(Access, RULES)
    answered(bench, deleting(bench, "seen", "mine"), seen=None)
    counter = bench.host.metrics.by_name["denied_access"]
    assert isinstance(counter, PolicyCounter)
    assert counter.series == {("topic",): 1}


def test_a_question_has_an_end() -> None:
    """What is beyond it is refused as without it; so is what is beyond so many partitions."""
    bench = PolicyBench(Access, RULES)
    names = [f"seen{number}" for number in range(MAX_NAMES + 1)]
    request = deleting(bench, *names)
    found = answered(bench, request, **dict.fromkeys(names[:-1]))
    assert found == dict.fromkeys(names[:-1], MISSING) | {names[-1]: TOPIC}
    request = adding(bench, {"w": list(range(MAX_NAMES + 2)), "no": [0]})
    codes = answered(bench, request, w=ExistingTopic(NO_ID, 0))
    assert isinstance(codes, dict)
    assert len(codes) == MAX_NAMES + 1


def test_observing_asks_nothing() -> None:
    """What would be refused passes."""
    bench = PolicyBench(Access, RULES, mode="observe")
    assert refused(bench, deleting(bench, "seen")) is None
