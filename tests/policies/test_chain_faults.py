"""The chain: the effect of a bug, and which policies learn of clients, ticks and the end."""

import pytest

from policies.api import Outcome
from policies.chain import PolicyFault
from policies.responses import UNKNOWN
from tests.support.core.chains import PEER, REFUSED, OnlyCounts, Told, make, request, walk
from wire.apis import ApiKey

# -- bugs ---------------------------------------------------------------------------------------


def test_a_guard_that_raises_is_reported_and_closes():
    """No request is forwarded unjudged; later policies are neither called nor told of the end."""
    diary: list[str] = []
    bug = RuntimeError("bug")
    chain, reporter = make(Told("a", diary), Told("b", diary, request=bug), Told("c", diary))
    asked = request()
    hooks = chain.hooks(asked.api_key)
    assert hooks.on_request is not None
    assert hooks.on_complete is not None
    with pytest.raises(PolicyFault) as raised:
        hooks.on_request(asked, PEER, 0)
    hooks.on_complete(asked, Outcome.DISCONNECTED, PEER, UNKNOWN, 0)
    assert (raised.value.name, raised.value.hook) == ("b", "on_request")
    assert reporter.errors == [("b", "on_request", bug)]
    assert diary == ["a request", "b request", "a complete", "b complete"]


def test_a_watcher_that_raises_is_reported_and_yields():
    """With on_error: forward, the rest of the chain still decides."""
    diary: list[str] = []
    chain, reporter = make(
        Told("a", diary, request=RuntimeError("bug"), response=RuntimeError("bug")),
        Told("b", diary, request=REFUSED),
        on_errors={"a": "forward"},
    )
    assert walk(chain) is REFUSED
    assert [hook for _, hook, _ in reporter.errors] == ["on_request"]


def test_a_fault_about_a_reply_closes_and_one_about_the_end_does_not():
    """The reply may be what the policy guards against; at the end nothing is left to close."""
    chain, reporter = make(Told("a", [], response=RuntimeError("bug")), Told("b", []))
    with pytest.raises(PolicyFault, match="on_response"):
        walk(chain)
    assert len(reporter.errors) == 1

    diary: list[str] = []
    chain, reporter = make(Told("a", diary, complete=RuntimeError("bug")), Told("b", diary))
    walk(chain)
    assert diary[-2:] == ["a complete", "b complete"]
    assert [(name, hook) for name, hook, _ in reporter.errors] == [("a", "on_complete")]


def test_a_bug_of_a_bare_hook_is_blamed_on_its_owner_once():
    """The core passes the exception of the hook to the chain, and raises the fault it gets."""
    diary: list[str] = []
    chain, reporter = make(
        Told("other", diary, apis=frozenset({ApiKey.PRODUCE})), OnlyCounts(), Told("mine", diary)
    )
    bug = RuntimeError("bug")
    fault = chain.attribute_fault(ApiKey.HEARTBEAT, "on_request", bug)
    assert (fault.name, fault.hook) == ("mine", "on_request")
    assert reporter.errors == [("mine", "on_request", bug)]

    lone = Told("mine", [])
    chain, reporter = make(OnlyCounts(), lone)
    lone.apis = frozenset()
    chain.reconsider()
    fault = chain.attribute_fault(ApiKey.HEARTBEAT, "on_response", RuntimeError("bug"))
    assert (fault.name, fault.hook) == ("mine", "on_response")
    assert [name for name, _, _ in reporter.errors] == ["mine"]

    chain, reporter = make(Told("a", []))
    fault = PolicyFault("a", "on_request")
    assert chain.attribute_fault(ApiKey.HEARTBEAT, "on_request", fault) is fault
    assert reporter.errors == []


def test_interests_that_cannot_be_read_again_are_reported_and_the_last_ones_stay():
    """Another policy asked for the chain to be compiled again; its own change counts."""
    diary: list[str] = []
    broken, sound = Told("broken", diary), Told("sound", diary)
    chain, reporter = make(broken, sound)
    broken.apis, sound.apis = "nonsense", frozenset()
    chain.reconsider()
    assert chain.hooks(ApiKey.HEARTBEAT).with_on_request == ("broken",)
    assert [(name, hook) for name, hook, _ in reporter.errors] == [("broken", "interests")]


# -- connections, ticks, the end ----------------------------------------------------------------


def test_the_first_refusal_rejects_a_client_and_earlier_policies_learn_of_it():
    """A policy that counts connections must not count this one for ever; an observer's refusal is only reported."""
    diary: list[str] = []
    chain, _ = make(Told("a", diary), OnlyCounts(), Told("b", diary))
    assert chain.on_connect(PEER, 0) is None
    assert diary == ["a connect", "b connect"]

    diary: list[str] = []
    chain, _ = make(Told("a", diary), Told("b", diary, connect=REFUSED), Told("c", diary))
    assert chain.on_connect(PEER, 0) is REFUSED
    assert diary == ["a connect", "b connect", "a disconnect"]

    diary: list[str] = []
    chain, reporter = make(
        Told("a", diary, connect=REFUSED), Told("b", diary), modes={"a": "observe"}
    )
    assert chain.on_connect(PEER, 0) is None
    assert diary == ["a connect", "b connect"]
    assert reporter.observed == [("a", REFUSED)]


def test_a_guard_that_raises_at_connect_rejects_the_client_and_a_watcher_does_not():
    """Only this connection is lost: the chain returns a refusal and does not raise."""
    chain, reporter = make(Told("a", [], connect=RuntimeError("bug")))
    refusal = chain.on_connect(PEER, 0)
    assert refusal is not None
    assert refusal.close
    assert [(name, hook) for name, hook, _ in reporter.errors] == [("a", "on_connect")]

    chain, reporter = make(Told("a", [], connect=RuntimeError("bug")), on_errors={"a": "forward"})
    assert chain.on_connect(PEER, 0) is None
    assert len(reporter.errors) == 1


@pytest.mark.parametrize(
    ("bug", "event", "heard"),
    [
        ("disconnect", lambda chain: chain.on_disconnect(PEER, 0), ["a", "b"]),
        ("tick", lambda chain: [chain.tick(each, 0) for each in chain.entries], ["a", "b"]),
        ("close", lambda chain: chain.close(), ["b", "a"]),
    ],
)
def test_a_bug_that_no_request_caused_is_only_reported(bug, event, heard):
    """Every policy is called although one raises; when closing, the last one first: it may depend on the others."""
    diary: list[str] = []
    chain, reporter = make(Told("a", diary, **{bug: RuntimeError("bug")}), Told("b", diary))
    event(chain)
    assert diary == [f"{name} {bug}" for name in heard]
    hook = bug if bug == "close" else f"on_{bug}"
    assert [(name, hook) for name, hook, _ in reporter.errors] == [("a", hook)]
