"""Deny in a chain: it ends nothing, and an entry that only observes denies nothing."""

from dataclasses import replace

import pytest

from policies.api import FORWARD, Forward, Need, Patch, Peer, Policy, Throttle
from policies.chain import Chain, Entry
from policies.decision import PolicyDecision, is_no_op
from policies.denial import Deny
from policies.testing import BenchHost, BenchReporter
from policies.testing.bench_request import BenchRequest
from policies.verdicts import check_request, merge, without_exemption
from wire.apis import ApiKey, find
from wire.authorization import Ask, Operation, ResourceType
from wire.errors import ErrorCode
from wire.item_arrays import Item

CODE = ErrorCode.TOPIC_AUTHORIZATION_FAILED
PEER = Peer(1, "127.0.0.1", 5000)
GROUP = Ask(ResourceType.GROUP, "g", Operation.READ, ErrorCode.GROUP_AUTHORIZATION_FAILED)
EVERY = Ask(ResourceType.TOPIC, None, Operation.DESCRIBE, CODE)


class Says(Policy):
    """Gives one verdict."""

    Config = dict
    needs = Need.TOPICS

    def __init__(self, verdict):
        super().__init__({}, BenchHost())
        self.verdict = verdict

    def on_request(self, request, peer, now_ms):
        return self.verdict


def ask(*entries):
    """The verdict of a chain of these entries on a Produce, and its reporter."""
    reporter = BenchReporter()
    chain = Chain(entries, reporter)
    api = find(ApiKey.PRODUCE, 9)
    assert api is not None
    hooks = chain.hooks(ApiKey.PRODUCE)
    return hooks.on_request(BenchRequest(api), PEER, 0), reporter


def test_denials_are_joined_in_the_order_of_the_chain():
    """Each with the name of its entry; later entries are still asked."""
    patch = Forward((Patch(0, b"x"),))
    verdict, _ = ask(
        Entry("a", Says(Deny({"x": CODE}))),
        Entry("b", Says(Throttle(5, Deny({"y": CODE})))),
        Entry("c", Says(patch)),
    )
    denials = (Deny({"x": CODE}), Deny({"y": CODE}))
    assert verdict == Throttle(5, Forward(patch.patches, denials=denials))
    assert [denial.policy for denial in verdict.forward.denials] == ["a", "b"]
    check_request(verdict)


def test_an_entry_that_observes_denies_nothing():
    """It is reported as what would have happened."""
    verdict, reporter = ask(Entry("a", Says(Deny({"x": CODE})), mode="observe"))
    assert verdict is FORWARD
    assert reporter.observed == [("a", Deny({"x": CODE}))]


def test_a_denial_is_reported_as_a_refusal():
    """With the names of its codes, of topics and of groups, and the policy's words."""
    denial = Deny({"x": CODE, ("y", 1): ErrorCode.POLICY_VIOLATION}, "secret")
    decision = PolicyDecision("a", denial, PEER, "Produce", 0)
    assert (decision.kind, decision.message) == ("reject", "secret")
    assert decision.error == "POLICY_VIOLATION, TOPIC_AUTHORIZATION_FAILED"
    assert not is_no_op(denial)

    denial = Deny({"x": CODE, GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED})
    decision = PolicyDecision("topics", denial, PEER, "OffsetFetch", 0)
    assert decision.error == "GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED"


def test_a_change_beside_a_denial_is_reported_as_a_refusal():
    """By the name of the entry, its codes and words; and in mode observe it is no empty verdict."""
    verdict = Forward((Patch(0, b"x"),), denials=(Deny({"x": CODE}, "secret"),))
    decision = PolicyDecision("a", verdict, PEER, "Metadata", 0)
    assert (decision.kind, decision.message) == ("reject", "secret")
    assert decision.error == "TOPIC_AUTHORIZATION_FAILED"
    assert not is_no_op(Forward(denials=(Deny({"x": CODE}),)))
    assert is_no_op(Forward())
    joined, _ = ask(Entry("a", Says(verdict)), Entry("b", Says(Deny({"y": CODE}))))
    assert [denial.policy for denial in joined.denials] == ["a", "b"]


@pytest.mark.parametrize("denials", [[], (1,), (Forward(),), {}])
def test_other_denials_of_a_forward_are_a_mistake(denials):
    """They are a tuple of Deny."""
    with pytest.raises(TypeError, match=r"Forward\.denials"):
        check_request(Forward(denials=denials))


def test_a_denial_is_named_without_checking_it_again():
    """It is the same but for the name of its entry."""
    denial = Deny({GROUP: 30, ("t", 1): CODE}, "no")
    named = denial.named("a")
    assert (named, named.policy, named.message) == (denial, "a", "no")
    assert (named.asked, named.has_partitions) == (denial.asked, True)
    assert named.code_of(Item(ResourceType.GROUP, "g")) == 30
    assert named.named("a") is named


def test_an_exemption_beside_a_denial_takes_nothing_from_it():
    """The denial stays when the exemption is noted and removed."""
    joined = merge(merge(FORWARD, Deny({"x": CODE})), Forward(exempt=True))
    assert joined.exempt
    assert without_exemption(joined).denials == (Deny({"x": CODE}),)


@pytest.mark.parametrize("key", ["name", b"i" * 16, ("name", 3), (b"i" * 16, 3)])
def test_a_key_is_a_name_or_an_id_with_or_without_a_partition(key):
    """Both kinds match a topic whose id has a name."""
    topic = Item(ResourceType.TOPIC, "name", b"i" * 16)
    assert Deny({key: CODE}).code_of(topic, 3) == CODE
    assert Deny({key: CODE}).code_of(topic, None) == (None if isinstance(key, tuple) else CODE)
    assert Deny({key: CODE}).code_of(Item(ResourceType.TOPIC, "other", b"j" * 16), 3) is None
    assert Deny({key: CODE}).code_of(Item(ResourceType.GROUP, "name")) is None


def test_a_key_may_be_an_ask():
    """It matches the item of its kind and name, in any operation: a request asks for one, or for all of them."""
    denial = Deny({GROUP: 30, EVERY: CODE})
    assert denial.code_of(Item(ResourceType.GROUP, "g")) == 30
    assert denial.code_of(Item(ResourceType.TRANSACTIONAL_ID, "g")) is None
    assert denial.code_of(Item(ResourceType.TOPIC, "g")) is None
    assert denial.code_of(Item(ResourceType.TOPIC, None, b"i" * 16)) is None
    assert denial.code_of(Item(ResourceType.TOPIC, None)) == CODE
    assert denial.asked == {
        (ResourceType.GROUP, Operation.READ), (ResourceType.TOPIC, Operation.DESCRIBE),
    }  # fmt: skip
    assert replace(denial, policy="p").asked == denial.asked


@pytest.mark.parametrize(
    "make",
    [lambda: Deny({"a": 0}), lambda: Deny({"a": 4711}), lambda: Deny({"a": True}), lambda: Deny({3: CODE}),
     lambda: Deny(["a"]), lambda: Deny({"a": CODE}, "x" * 251),
     lambda: Deny({GROUP: 0}), lambda: Deny({("a", 1, 2): CODE})],
)  # fmt: skip
def test_a_wrong_denial_fails_when_it_is_made(make):
    """The message names the field."""
    with pytest.raises(TypeError, match=r"Deny\.(codes|message)"):
        make()
