"""access: thousands of rules and of names: large requests are judged in steps, and a client's rules alone count."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from policies.access.judgement import STEP_NAMES
from policies.access.policy import Access
from policies.access.rights import MAX_CHARS, MAX_REMEMBERED, WRITE
from policies.api import FORWARD, Forward
from policies.custom_metrics import PolicyCounter
from policies.denial import Deny
from policies.testing import BenchRequest, PolicyBench
from tests.support.core.access_rules import BOB, STRANGER, access, bob_may, refused
from wire.errors import ErrorCode
from wire.request_names import read_names

TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MANY = 12_000


def large(bench: PolicyBench, *names: str) -> BenchRequest:
    """Return a Fetch of all these topics, with its names read."""
    request = bench.request("Fetch", 4, topics=names)
    body = request.sent_body
    request.names = read_names(request.api, body, 0, len(body), {}, 10 * MANY)
    return request


def steps(bench: PolicyBench, request: BenchRequest) -> Iterator[int]:
    """Prepare the judgement; yield how many rights are known after each step."""
    policy = bench.policy
    assert isinstance(policy, Access)
    for _ in policy.prepare(request, BOB):
        yield len(policy.books.client(BOB).subject.topics)


def test_a_large_request_is_judged_in_steps() -> None:
    """No step looks at more than STEP_NAMES names; then the verdict is there, and it is used once."""
    bench = PolicyBench(Access, bob_may(topics={"a*": ["read"]}))
    names = [f"{'a' if n % 2 else 'x'}{n}" for n in range(MANY)]
    request = large(bench, *names)
    known = [0, *steps(bench, request)]
    assert len(known) > MANY / STEP_NAMES
    assert all(after - before <= STEP_NAMES for before, after in pairwise(known))
    policy = bench.policy
    assert isinstance(policy, Access)
    client = policy.books.client(BOB)
    assert client.prepared is not None
    verdict = policy.on_request(request, BOB, 0)
    assert isinstance(verdict, Deny)
    assert verdict.codes == {name: TOPIC for name in names if name[0] == "x"}
    assert client.prepared is None


@pytest.mark.parametrize("topics", [{"b*": ["read"]}, {"a*": ["read"], "b*": ["read"]}])
def test_rules_that_change_between_two_steps_decide(topics: dict[str, list[str]]) -> None:
    """What was prepared by older rules is not used."""
    bench = PolicyBench(Access, bob_may(topics={"a*": ["read"]}))
    request = large(bench, *[f"a{n}" for n in range(MANY)], "b")
    for _ in steps(bench, request):
        pass
    bench.reload(bob_may(topics=topics))
    verdict = bench.policy.on_request(request, BOB, 0)
    assert (verdict is FORWARD) == ("a*" in topics)


def test_a_reply_between_two_steps_makes_no_old_judgement_new() -> None:
    """It is judged by the new rules, and the client is known by them; the steps go on by the old ones."""
    bench = PolicyBench(Access, bob_may(topics={"a*": ["read"]}))
    listing = bench.request("Metadata", 9, fields={"topics": None})
    bench.ask(listing, BOB)
    request = large(bench, *[f"a{n}" for n in range(MANY)])
    steps_left = steps(bench, request)
    next(steps_left)
    bench.reload(bob_may(topics={"b*": ["read"]}))
    bench.reply(listing, fields={"topics": [{"name": "b"}]}, peer=BOB)
    for _ in steps_left:
        pass
    verdict = bench.policy.on_request(request, BOB, 0)
    assert isinstance(verdict, Deny)
    assert len(verdict.codes) == MANY


def test_a_judgement_that_was_prepared_is_for_its_request_alone() -> None:
    """The next one is judged by what it names."""
    bench = PolicyBench(Access, bob_may(topics={"a*": ["read"]}))
    for _ in steps(bench, large(bench, "a1", "x1")):
        pass
    assert refused(bench, bench.request("Fetch", topics=["x2"])) == {"x2": TOPIC}


def test_the_rights_of_a_client_among_ten_thousand_rules() -> None:
    """It has those of its own rules, whichever they are."""
    rules: list[dict[str, object]] = [
        {"who": [f"u{n}"], "topics": {f"t{n}.*": ["write"], f"t{n}": ["read"]}}
        for n in range(10_000)
    ]
    policy = access({"rules": rules})
    for number in (0, 1, 9_999):
        peer = replace(BOB, session_id=number + 10, user=f"u{number}")
        subject = policy.books.client(peer).subject
        assert subject.topic(f"t{number}.x") & WRITE
        assert not subject.topic("t5.x") & WRITE
        assert subject.writes_idempotently()
    assert not policy.books.client(STRANGER).subject.writes_idempotently()


def test_what_is_remembered_is_bounded() -> None:
    """By the count of names, and by their size; clients that share their rules share it."""
    policy = access(bob_may(topics={"a*": ["read"]}, groups={"a*": ["read"]}))
    subject = policy.books.client(BOB).subject
    assert policy.books.client(replace(BOB, session_id=9)).subject is subject
    for number in range(MAX_REMEMBERED + 10):
        subject.topic(f"a{number}")
    assert len(subject.topics) <= 11
    assert subject.topic("a1") == subject.topic("a2") != 0
    before = len(subject.groups)
    assert subject.group("a" * (MAX_CHARS + 1))
    assert len(subject.groups) == before


def test_a_client_that_has_gone_leaves_none_of_its_rights() -> None:
    """They are found again for the next one."""
    bench = PolicyBench(Access, bob_may(topics={"a*": ["read"]}))
    policy = bench.policy
    assert isinstance(policy, Access)
    assert isinstance(bench.ask(bench.request("Fetch", topics=["a"]), BOB), Forward)
    bench.disconnect(BOB)
    assert policy.books.clients == {}
    assert len(policy.books.rights._subjects) == 0


def test_the_counts_of_a_large_refusal_are_whole() -> None:
    """However many topics one request names."""
    bench = PolicyBench(Access, bob_may(topics={"a*": ["read"]}))
    request = large(bench, *[f"x{n}" for n in range(MANY)])
    bench.policy.on_request(request, BOB, 0)
    counter = bench.host.metrics.by_name["denied_access"]
    assert isinstance(counter, PolicyCounter)
    assert counter.series == {("topic",): MANY}
