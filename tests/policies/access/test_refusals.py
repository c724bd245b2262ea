"""access: what is refused is counted by user and rule; in mode `observe` all of it is told, and nothing is done."""

from collections.abc import Iterator
from dataclasses import replace

from policies.access.judgement import MAX_REFUSALS
from policies.access.policy import Access
from policies.access.refusals import MAX_NAMED
from policies.api import FORWARD, Forward
from policies.custom_metrics import MAX_SERIES
from policies.denial import Deny
from policies.testing import PolicyBench
from tests.support.core.access_rules import BOB
from wire.authorization import Operation, ResourceType

RULES = {
    "rules": [
        {"who": ["bob"], "topics": {"a*": ["read"]}, "groups": {"g": ["read"]}},
        {"who": ["*"], "effect": "deny", "topics": {"ab*": ["all"]}},
        {"who": ["bob"], "effect": "deny", "topics": {"ac": ["read"]}},
    ]
}
METRIC = "denied_access_by_rule"


def counts(bench: PolicyBench) -> dict[tuple[str, ...], float]:
    """Return the counts by user and rule."""
    return dict(bench.host.metrics.by_name[METRIC].series)


class Groups(frozenset[str]):
    """Groups of a token that count how often they are gone through."""

    looks = 0

    def __iter__(self) -> Iterator[str]:
        type(self).looks += 1
        return super().__iter__()


def test_a_client_with_very_many_groups_is_looked_up_once_however_often_it_is_refused() -> None:
    """A token may have a thousand: to go through them for each refusal would keep others waiting."""
    bench = PolicyBench(Access, RULES)
    member = replace(BOB, proof="token", groups=Groups(f"g{number}" for number in range(1_000)))
    for _ in range(20):
        bench.ask(bench.request("Fetch", topics=["x"]), member)
    assert counts(bench) == {("bob", "none"): 20}
    assert Groups.looks == 2  # for the rights, and for the rules that deny


def test_refusals_are_counted_by_user_and_rule() -> None:
    """The deciding deny has the place that it has in the file; `none`: no rule allows it."""
    bench = PolicyBench(Access, RULES)

    bench.ask(bench.request("Fetch", topics=["a", "abc", "abd", "ac", "x"]), BOB)
    bench.ask(bench.request("Fetch", topics=["abc"]), replace(BOB, session_id=3, user="eve"))

    assert counts(bench) == {
        ("bob", "rules[1]"): 2,
        ("bob", "rules[2]"): 1,
        ("bob", "none"): 1,
        ("eve", "rules[1]"): 1,
    }


def test_many_rights_of_one_request_are_counted_without_their_rules() -> None:
    """A request of very many topics costs no look at the rules for each."""
    bench = PolicyBench(Access, RULES)

    bench.ask(bench.request("Fetch", topics=[f"ab{n}" for n in range(MAX_NAMED + 7)]), BOB)

    assert counts(bench) == {("bob", "rules[1]"): MAX_NAMED, ("bob", "other"): 7}


def test_users_that_clients_make_up_share_a_series() -> None:
    """The metric has a bounded number of series."""
    bench = PolicyBench(Access, RULES)
    request = bench.request("Fetch", topics=["abc"])
    for n in range(2 * MAX_SERIES):
        peer = replace(BOB, session_id=10 + n, user=f"u{n}")
        bench.policy.on_request(request, peer, 0)
        bench.policy.on_disconnect(peer, 0)

    found = counts(bench)
    assert len(found) == MAX_SERIES + 1
    assert found["other", "other"] == MAX_SERIES


def test_an_entry_that_observes_tells_all_that_is_missing_and_changes_nothing() -> None:
    """Kafka would end at the group; `sluice access suggest` needs the topics, too."""
    bench = PolicyBench(Access, RULES, mode="observe")
    request = bench.request("OffsetCommit", 9, topics=["x", "ab"], fields={"group_id": "h"})

    assert bench.ask(request, BOB) == FORWARD

    ((_, verdict),) = bench.reporter.observed
    assert isinstance(verdict, Deny)
    assert [(ask.kind, ask.name, ask.operation) for ask in verdict.codes] == [
        (ResourceType.GROUP, "h", Operation.READ),
        (ResourceType.TOPIC, "x", Operation.READ),
        (ResourceType.TOPIC, "ab", Operation.READ),
    ]
    assert verdict.message == "READ group h: no rule allows it"
    assert counts(bench) == {("bob", "none"): 2, ("bob", "rules[1]"): 1}


def test_the_words_name_the_first_right_and_the_rule() -> None:
    """A name of any length is cut: a Deny has 250 characters."""
    bench = PolicyBench(Access, RULES, mode="observe")
    for topic in ("abc", "ab" + "x" * 247, None):
        fields = {"group_id": "g", "subscribed_topic_regex": "a.*"} if topic is None else {}
        api = "ConsumerGroupHeartbeat" if topic is None else "Fetch"
        bench.ask(bench.request(api, topics=[topic] if topic else [], fields=fields), BOB)

    assert [verdict.message for _, verdict in bench.reporter.observed] == [
        "READ topic abc: rules[1] denies it",
        f"READ topic ab{'x' * 98}: rules[1] denies it",
        "DESCRIBE topic *: rules[1] denies it",
    ]


def test_a_request_of_very_many_topics_is_told_in_part() -> None:
    """So that one step of the loop stays short."""
    bench = PolicyBench(Access, RULES, mode="observe")
    bench.ask(bench.request("Fetch", topics=[f"x{n}" for n in range(MAX_REFUSALS + 5)]), BOB)

    ((_, verdict),) = bench.reporter.observed
    assert len(verdict.codes) == MAX_REFUSALS
    assert counts(bench) == {("bob", "none"): MAX_NAMED, ("bob", "other"): MAX_REFUSALS - MAX_NAMED}


def test_an_entry_that_observes_passes_on_what_it_would_change() -> None:
    """A long wait, a topic's creation, and a share session stay as the client asked for them."""
    bench = PolicyBench(Access, RULES, mode="observe")
    for request in (
        bench.request("Fetch", topics=["a"], fields={"max_wait": 30_000}),
        bench.request("Metadata", 9, topics=["new"]),
        bench.request("ShareFetch", topics=["a"], fields={"group_id": "g", "member_id": "m"}),
        bench.request("CreateAcls"),
    ):
        verdict = bench.ask(request, BOB)
        assert isinstance(verdict, Forward)
        assert not verdict.patches
        assert not verdict.denials
