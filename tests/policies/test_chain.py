"""The chain: who is asked, in which order, who hears of the end, and what a bug costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from policies.api import FORWARD, Forward, Need, Outcome, Patch, Peer, Policy, Reject, Respond
from policies.chain import Chain, Entry, Hooks, PolicyFault
from policies.testing import BenchHost, BenchReporter, BenchRequest, BenchResponse
from wire import apis
from wire.apis import ApiKey
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from policies.api import Verdict

PEER = Peer(1, "10.0.0.9", 40000)
REFUSED = Reject(ErrorCode.POLICY_VIOLATION)


class Told(Policy):
    """Writes into a diary shared with the others; `verdicts` by hook, an exception is raised."""

    Config = dict

    def __init__(self, name, diary, apis=None, needs=Need.HEADER, **verdicts):
        super().__init__({}, BenchHost(name))
        self.diary = diary
        self.apis = apis
        self.needs = needs
        self.verdicts = verdicts

    def answer(self, hook: str) -> Verdict:
        self.diary.append(f"{self.host.name} {hook}")
        verdict = self.verdicts.get(hook, FORWARD)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    def on_connect(self, peer, now_ms):
        return self.answer("connect")

    def on_request(self, request, peer, now_ms):
        return self.answer("request")

    def on_response(self, request, response, peer, now_ms):
        return self.answer("response")

    def on_complete(self, request, outcome, now_ms):
        self.answer("complete")

    def on_disconnect(self, peer, now_ms):
        self.answer("disconnect")

    def on_tick(self, now_ms):
        self.answer("tick")

    def close(self):
        self.answer("close")


class OnlyCounts(Policy):
    """Decides nothing; hears how requests end."""

    Config = dict

    def __init__(self, needs=Need.HEADER):
        super().__init__({}, BenchHost("counts"))
        self.needs = needs
        self.ends: list[Outcome] = []

    def on_complete(self, request, outcome, now_ms):
        self.ends.append(outcome)


class Idle(Policy):
    """Overrides nothing, whatever it says it needs."""

    Config = dict
    needs = Need.BODY


def make(*policies, modes=None, on_errors=None) -> tuple[Chain, BenchReporter]:
    reporter = BenchReporter()
    modes = modes or {}
    on_errors = on_errors or {}
    entries = [
        Entry(
            each.host.name,
            each,
            modes.get(each.host.name, "enforce"),
            on_errors.get(each.host.name, "close"),
        )
        for each in policies
    ]
    return Chain(entries, reporter), reporter


def request(key: int = ApiKey.HEARTBEAT) -> BenchRequest:
    facts = apis.find(key, apis.OFFERED[key][1])
    assert facts is not None
    return BenchRequest(facts)


def walk(chain: Chain, asked: BenchRequest | None = None) -> Verdict:
    """One request, from the question to its end."""
    asked = asked or request()
    hooks = chain.hooks(asked.api_key)
    assert hooks.on_request is not None
    assert hooks.on_response is not None
    assert hooks.on_complete is not None
    verdict = hooks.on_request(asked, PEER, 5)
    if isinstance(verdict, Forward):
        hooks.on_response(asked, BenchResponse(), PEER, 6)
        hooks.on_complete(asked, Outcome.REPLIED, 6)
    else:
        hooks.on_complete(asked, Outcome.ANSWERED, 5)
    return verdict


# -- order --------------------------------------------------------------------------------------


def test_requests_go_down_the_order_and_replies_come_back_up():
    """The order is the config file's."""
    diary: list[str] = []
    chain, _ = make(*(Told(name, diary) for name in "abc"))
    assert walk(chain) is FORWARD
    assert diary[:3] == ["a request", "b request", "c request"]
    assert diary[3:6] == ["c response", "b response", "a response"]
    assert diary[6:] == ["a complete", "b complete", "c complete"]


@pytest.mark.parametrize("refusal", [REFUSED, Respond(b"here")])
def test_the_first_refusal_ends_the_asking_and_only_those_asked_hear_of_the_end(refusal):
    """The third policy never saw this request, so nobody tells it how it ended."""
    diary: list[str] = []
    chain, _ = make(Told("a", diary), Told("b", diary, request=refusal), Told("c", diary))
    assert walk(chain) is refusal
    assert diary == ["a request", "b request", "a complete", "b complete"]


def test_the_end_of_one_request_says_nothing_of_the_next():
    """A refusal is remembered by the request, not by the chain."""
    diary: list[str] = []
    refusing = Told("a", diary, request=REFUSED)
    chain, _ = make(refusing, Told("b", diary))
    walk(chain)
    refusing.verdicts.clear()
    walk(chain)
    assert diary.count("b complete") == 1
    assert diary.count("a complete") == 2


def test_who_only_listens_hears_every_end_even_of_what_others_refused():
    """It was never in the row of those asked."""
    diary: list[str] = []
    counts = OnlyCounts()
    chain, _ = make(Told("a", diary, request=REFUSED), counts)
    walk(chain)
    assert counts.ends == [Outcome.ANSWERED]


def test_patches_are_joined_in_order_and_the_last_new_body_wins():
    """Both hands may change a request that both let through."""
    first, second = Patch(0, b"\x01"), Patch(4, b"\x02")
    diary: list[str] = []
    chain, _ = make(
        Told("a", diary, request=Forward((first,), b"one")),
        Told("b", diary),
        Told("c", diary, request=Forward((second,))),
        Told("d", diary, request=Forward(body=b"two")),
    )
    assert walk(chain) == Forward((first, second), b"two")


# -- compiling ----------------------------------------------------------------------------------


def test_an_api_that_no_policy_wants_costs_nothing():
    """No hook at all, and nothing needed but the header."""
    diary: list[str] = []
    wants = frozenset({ApiKey.PRODUCE})
    chain, _ = make(Told("a", diary, apis=wants, needs=Need.BODY))
    assert chain.hooks(ApiKey.HEARTBEAT) == Hooks(Need.HEADER, None, None, None)
    assert chain.hooks(ApiKey.PRODUCE).on_request is not None
    assert make()[0].hooks(ApiKey.PRODUCE) == Hooks()


def test_a_policy_that_overrides_nothing_costs_nothing():
    """Whatever it says it needs."""
    chain, _ = make(Idle({}, BenchHost("idle")))
    assert chain.hooks(ApiKey.PRODUCE) == Hooks()


def test_only_what_is_overridden_is_called():
    """A policy that counts is asked nothing."""
    counts = OnlyCounts(needs=Need.HEAD)
    chain, _ = make(counts)
    hooks = chain.hooks(ApiKey.PRODUCE)
    assert (hooks.need, hooks.on_request, hooks.on_response) == (Need.HEAD, None, None)
    assert hooks.on_complete is not None


def test_hooks_are_compiled_once_per_api():
    """The same object every time; it stands in every plan."""
    chain, _ = make(OnlyCounts())
    assert chain.hooks(ApiKey.PRODUCE) is chain.hooks(ApiKey.PRODUCE)


def test_what_is_needed_is_the_most_that_anyone_needs_of_this_api():
    """`needs` is one for all, or by key; a key that is not named needs the header."""
    diary: list[str] = []
    chain, _ = make(
        Told("a", diary, needs={ApiKey.FETCH: Need.HEAD}),
        Told("b", diary, apis=frozenset({ApiKey.PRODUCE}), needs=Need.BODY),
        Told("c", diary),
    )
    assert chain.hooks(ApiKey.PRODUCE).need is Need.BODY
    assert chain.hooks(ApiKey.FETCH).need is Need.HEAD
    assert chain.hooks(ApiKey.HEARTBEAT).need is Need.HEADER


def test_a_policy_is_asked_about_its_own_apis_only():
    """Others of the chain are asked all the same."""
    diary: list[str] = []
    chain, _ = make(Told("a", diary, apis=frozenset({ApiKey.PRODUCE})), Told("b", diary))
    walk(chain, request(ApiKey.HEARTBEAT))
    assert diary == ["b request", "b response", "b complete"]


def test_a_lone_policy_is_called_without_a_layer_between():
    """The ordinary case costs one call: the hook is the bound method itself."""
    diary: list[str] = []
    lone = Told("a", diary, apis=frozenset({ApiKey.HEARTBEAT}))
    chain, _ = make(lone, Told("b", diary, apis=frozenset({ApiKey.PRODUCE})), OnlyCounts())
    assert chain.hooks(ApiKey.HEARTBEAT).on_request == lone.on_request


@pytest.mark.parametrize(
    "options", [{"modes": {"a": "observe"}}, {"on_errors": {"a": "forward"}}], ids=str
)
def test_a_lone_policy_that_must_not_refuse_is_never_called_bare(options):
    """Its refusals and its bugs are only reported."""
    diary: list[str] = []
    lone = Told("a", diary)
    chain, _ = make(lone, **options)
    assert chain.hooks(ApiKey.HEARTBEAT).on_request != lone.on_request


# -- observing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [REFUSED, Respond(b"here"), Forward(body=b"new")])
def test_an_observer_changes_nothing_and_what_it_would_have_done_is_reported(verdict):
    """Those behind it are asked as if it had let the request pass."""
    diary: list[str] = []
    chain, reporter = make(
        Told("a", diary, request=verdict), Told("b", diary), modes={"a": "observe"}
    )
    assert walk(chain) is FORWARD
    assert diary[:2] == ["a request", "b request"]
    assert reporter.observed == [("a", verdict)]
    assert diary[-2:] == ["a complete", "b complete"]


def test_an_observer_that_forwards_is_not_reported():
    """There is nothing to tell."""
    chain, reporter = make(Told("a", []), modes={"a": "observe"})
    walk(chain)
    assert reporter.observed == []


def test_an_observer_that_raises_is_reported_and_never_closes():
    """Observing is a promise to change nothing, `on_error` or not."""
    chain, reporter = make(Told("a", [], request=RuntimeError("bug")), modes={"a": "observe"})
    assert walk(chain) is FORWARD
    assert [(name, hook) for name, hook, _ in reporter.errors] == [("a", "on_request")]


# -- bugs ---------------------------------------------------------------------------------------


def test_a_guard_that_raises_is_reported_and_closes():
    """Nothing goes on unjudged; those behind it are not asked, nor told of the end."""
    diary: list[str] = []
    bug = RuntimeError("bug")
    chain, reporter = make(Told("a", diary), Told("b", diary, request=bug), Told("c", diary))
    asked = request()
    hooks = chain.hooks(asked.api_key)
    assert hooks.on_request is not None
    assert hooks.on_complete is not None
    with pytest.raises(PolicyFault) as raised:
        hooks.on_request(asked, PEER, 0)
    hooks.on_complete(asked, Outcome.DISCONNECTED, 0)
    assert (raised.value.name, raised.value.hook) == ("b", "on_request")
    assert reporter.errors == [("b", "on_request", bug)]
    assert diary == ["a request", "b request", "a complete", "b complete"]


def test_a_watcher_that_raises_is_reported_and_yields():
    """on_error: forward; the rest of the chain still decides."""
    diary: list[str] = []
    chain, reporter = make(
        Told("a", diary, request=RuntimeError("bug"), response=RuntimeError("bug")),
        Told("b", diary, request=REFUSED),
        on_errors={"a": "forward"},
    )
    assert walk(chain) is REFUSED
    assert [hook for _, hook, _ in reporter.errors] == ["on_request"]


def test_a_guard_that_raises_about_a_reply_closes():
    """The reply may be what it guards."""
    chain, reporter = make(Told("a", [], response=RuntimeError("bug")))
    with pytest.raises(PolicyFault, match="on_response"):
        walk(chain)
    assert len(reporter.errors) == 1


def test_what_is_raised_on_hearing_of_the_end_is_reported_and_the_others_hear_it_too():
    """The request is over, so there is nothing to close."""
    diary: list[str] = []
    chain, reporter = make(Told("a", diary, complete=RuntimeError("bug")), Told("b", diary))
    walk(chain)
    assert diary[-2:] == ["a complete", "b complete"]
    assert [(name, hook) for name, hook, _ in reporter.errors] == [("a", "on_complete")]


def test_a_lone_policys_bug_is_laid_at_its_door():
    """The core hands over what the bare hook raised and raises what it gets."""
    diary: list[str] = []
    chain, reporter = make(
        Told("other", diary, apis=frozenset({ApiKey.PRODUCE})), OnlyCounts(), Told("mine", diary)
    )
    bug = RuntimeError("bug")
    fault = chain.blame(ApiKey.HEARTBEAT, bug)
    assert (fault.name, fault.hook) == ("mine", "on_request")
    assert reporter.errors == [("mine", "on_request", bug)]


def test_what_was_blamed_once_is_not_blamed_again():
    """The joined hook has reported it already."""
    chain, reporter = make(Told("a", []))
    fault = PolicyFault("a", "on_request")
    assert chain.blame(ApiKey.HEARTBEAT, fault) is fault
    assert reporter.errors == []


# -- connections, ticks, the end ----------------------------------------------------------------


def test_a_client_is_let_in_when_nobody_objects():
    """Everybody is asked, in order."""
    diary: list[str] = []
    chain, _ = make(Told("a", diary), OnlyCounts(), Told("b", diary))
    assert chain.on_connect(PEER, 0) is None
    assert diary == ["a connect", "b connect"]


def test_the_first_refusal_keeps_a_client_out_and_those_that_let_it_in_hear_it_is_gone():
    """A policy that counts connections must not count this one for ever."""
    diary: list[str] = []
    chain, _ = make(Told("a", diary), Told("b", diary, connect=REFUSED), Told("c", diary))
    assert chain.on_connect(PEER, 0) is REFUSED
    assert diary == ["a connect", "b connect", "a disconnect"]


def test_an_observer_keeps_nobody_out():
    """What it would have done is reported."""
    diary: list[str] = []
    chain, reporter = make(
        Told("a", diary, connect=REFUSED), Told("b", diary), modes={"a": "observe"}
    )
    assert chain.on_connect(PEER, 0) is None
    assert diary == ["a connect", "b connect"]
    assert reporter.observed == [("a", REFUSED)]


def test_a_guard_that_raises_at_connect_keeps_the_client_out():
    """And nothing but this connection is lost by it: the chain answers, it does not raise."""
    chain, reporter = make(Told("a", [], connect=RuntimeError("bug")))
    refusal = chain.on_connect(PEER, 0)
    assert refusal is not None
    assert refusal.close
    assert [(name, hook) for name, hook, _ in reporter.errors] == [("a", "on_connect")]


def test_a_watcher_that_raises_at_connect_lets_the_client_in():
    """on_error: forward."""
    chain, reporter = make(Told("a", [], connect=RuntimeError("bug")), on_errors={"a": "forward"})
    assert chain.on_connect(PEER, 0) is None
    assert len(reporter.errors) == 1


def test_everybody_hears_that_a_client_is_gone_whoever_raises():
    """In order; a bug is reported."""
    diary: list[str] = []
    chain, reporter = make(
        Told("a", diary, disconnect=RuntimeError("bug")), OnlyCounts(), Told("b", diary)
    )
    chain.on_disconnect(PEER, 0)
    assert diary == ["a disconnect", "b disconnect"]
    assert [(name, hook) for name, hook, _ in reporter.errors] == [("a", "on_disconnect")]


def test_a_tick_is_one_entrys_own_and_its_bugs_are_only_reported():
    """Nobody's session is to blame for it."""
    diary: list[str] = []
    chain, reporter = make(Told("a", diary, tick=RuntimeError("bug")), Told("b", diary))
    chain.tick(chain.entries[0], 0)
    chain.tick(chain.entries[1], 0)
    assert diary == ["a tick", "b tick"]
    assert [(name, hook) for name, hook, _ in reporter.errors] == [("a", "on_tick")]


def test_policies_are_closed_last_first_whoever_raises():
    """What was made last may lean on what was made first."""
    diary: list[str] = []
    chain, reporter = make(
        Told("a", diary), Told("b", diary, close=RuntimeError("bug")), Told("c", diary)
    )
    chain.close()
    assert diary == ["c close", "b close", "a close"]
    assert [(name, hook) for name, hook, _ in reporter.errors] == [("b", "close")]
