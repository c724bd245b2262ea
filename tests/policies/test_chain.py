"""The chain: who is asked, in which order, who hears of the end, and what it costs."""

from __future__ import annotations

import pytest

from policies.api import (
    EXEMPT,
    FORWARD,
    Forward,
    Hold,
    Need,
    Outcome,
    Patch,
    Policy,
    QuotaViolation,
    Respond,
    Throttle,
)
from policies.chain import Hooks
from policies.testing import BenchHost
from tests.support.chains import REFUSED, OnlyCounts, Told, ask, hear, make, request, walk
from wire.apis import ApiKey


class Idle(Policy):
    """Overrides nothing, whatever it says it needs."""

    Config = dict
    needs = Need.BODY


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
    assert chain.hooks(ApiKey.HEARTBEAT) == Hooks(Need.HEADER, None, None, None, None)
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


# -- throttles ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["request", "response"])
def test_of_several_throttles_the_largest_counts(mode):
    """Whoever says it; those behind are asked all the same."""
    diary: list[str] = []
    each = [
        Told(name, diary, **{mode: Throttle(ms)})
        for name, ms in zip("abc", (20, 50, 30), strict=True)
    ]
    chain, _ = make(*each, Told("d", diary))
    asked = request()
    verdict = ask(chain, asked) if mode == "request" else hear(chain, asked)
    assert verdict == Throttle(50)
    assert diary == [f"{name} {mode}" for name in ("abcd" if mode == "request" else "dcba")]


@pytest.mark.parametrize("verdict", [REFUSED, Respond(b"here"), Forward(body=b"new")], ids=str)
def test_a_throttle_holds_however_the_request_goes_on(verdict):
    """Said by another entry, or by the same in one word."""
    chain, _ = make(Told("a", [], request=Throttle(20)), Told("b", [], request=verdict))
    assert ask(chain, request()) == Throttle(20, verdict)
    chain, _ = make(Told("a", [], request=Throttle(20, verdict)), Told("b", []))
    assert ask(chain, request()) == Throttle(20, verdict)


def test_a_throttle_that_refuses_ends_the_asking():
    """As a refusal does."""
    diary: list[str] = []
    chain, _ = make(Told("a", diary, request=Throttle(20, REFUSED)), Told("b", diary))
    assert walk(chain) == Throttle(20, REFUSED)
    assert diary == ["a request", "a complete"]


def test_a_throttles_patches_are_joined_with_the_others():
    """It forwards like Forward."""
    first, second = Patch(0, b"\x01"), Patch(4, b"\x02")
    chain, _ = make(
        Told("a", [], request=Throttle(20, Forward((first,)))),
        Told("b", [], request=Forward((second,))),
    )
    assert ask(chain, request()) == Throttle(20, Forward((first, second)))


def test_the_largest_throttle_says_why():
    """Whoever asks for less, or later, is not the reason; nor does it matter to what is decided."""
    less, most, same = (
        Throttle(ms, why=QuotaViolation("user=alice", key, 2.0, 1.0))
        for ms, key in ((10, "producer_byte_rate"), (30, "request_rate"), (30, "tie"))
    )
    diary: list[str] = []
    verdict = walk(
        make(*(Told(n, diary, request=v) for n, v in zip("abc", (less, most, same), strict=True)))[
            0
        ]
    )
    assert verdict == Throttle(30)
    assert isinstance(verdict, Throttle)
    assert verdict.why == most.why


@pytest.mark.parametrize("order", [(EXEMPT, FORWARD), (FORWARD, EXEMPT), (EXEMPT, EXEMPT)])
def test_what_one_policy_exempts_is_exempt_in_a_chain(order):
    """The very object, whoever says so first."""
    diary: list[str] = []
    chain, _ = make(*(Told(n, diary, request=v) for n, v in zip("ab", order, strict=True)))
    assert walk(chain) is EXEMPT


@pytest.mark.parametrize("exempting", [EXEMPT, Throttle(5, EXEMPT)], ids=str)
@pytest.mark.parametrize("first", ["exempts", "patches"])
def test_what_one_policy_exempts_stays_exempt_when_another_patches(exempting, first):
    """In either order, alone or inside a throttle; nothing of the patch is lost."""
    patch = Patch(0, b"\x01")
    said = {"exempts": exempting, "patches": Forward((patch,))}
    order = sorted(said, key=lambda name: name != first)
    chain, _ = make(*(Told(name, [], request=said[name]) for name in order))
    verdict = walk(chain)
    ends = verdict.forward if isinstance(verdict, Throttle) else verdict
    assert isinstance(ends, Forward)
    assert (ends.patches, ends.exempt) == ((patch,), True)


def test_a_throttle_of_nothing_is_forward():
    """0 ms are no throttle, and its word on the request stands."""
    chain, _ = make(Told("a", [], request=Throttle(0)), Told("b", []))
    assert ask(chain, request()) is FORWARD


# -- who hears of replies -----------------------------------------------------------------------


def test_a_policy_hears_the_replies_of_the_apis_it_names_only():
    """None means all that it is asked about; nothing named costs nothing."""
    fetch = frozenset({ApiKey.FETCH})
    chain, _ = make(Told("a", [], response_apis=fetch))
    assert chain.hooks(ApiKey.FETCH).on_response is not None
    assert chain.hooks(ApiKey.PRODUCE).on_response is None
    assert chain.hooks(ApiKey.PRODUCE).on_request is not None
    assert make(Told("a", [], response_apis=frozenset()))[0].hooks(ApiKey.FETCH).on_response is None
    assert make(Told("a", [], apis=fetch))[0].hooks(ApiKey.FETCH).on_response is not None
    assert make(Told("a", [], apis=fetch))[0].hooks(ApiKey.PRODUCE).on_response is None


def test_what_it_hears_is_among_what_it_sees():
    """An API that it does not want to see is never heard of."""
    chain, _ = make(Told("a", [], apis=frozenset(), response_apis=frozenset({ApiKey.FETCH})))
    assert chain.hooks(ApiKey.FETCH) == Hooks()


def test_only_those_who_want_to_hear_it_are_told_of_a_reply():
    """In reverse order, as ever."""
    diary: list[str] = []
    deaf = Told("b", diary, response_apis=frozenset())
    chain, _ = make(Told("a", diary), deaf, Told("c", diary))
    hear(chain, request())
    assert diary == ["c response", "a response"]


def test_a_lone_listener_is_called_without_a_layer_between():
    """If it was asked about every request whose reply it hears: first in the row, or never in it."""
    heartbeat = frozenset({ApiKey.HEARTBEAT})
    lone = Told("a", [], apis=heartbeat)
    chain, _ = make(lone, Told("b", [], response_apis=frozenset()))
    assert chain.hooks(ApiKey.HEARTBEAT).on_response == lone.on_response
    second = Told("b", [])
    chain, _ = make(Told("a", [], response_apis=frozenset()), second)
    assert chain.hooks(ApiKey.HEARTBEAT).on_response != second.on_response
    for options in ({"modes": {"a": "observe"}}, {"on_errors": {"a": "forward"}}):
        chain, _ = make(lone, **options)
        assert chain.hooks(ApiKey.HEARTBEAT).on_response != lone.on_response


@pytest.mark.parametrize("verdict", [REFUSED, Respond(b"here"), Throttle(9, REFUSED)], ids=str)
def test_who_was_not_asked_does_not_hear_the_reply_made_here(verdict):
    """It never saw this request; who refused it and who let it through do."""
    diary: list[str] = []
    chain, _ = make(Told("a", diary), Told("b", diary, request=verdict), Told("c", diary))
    asked = request()
    ask(chain, asked)
    hear(chain, asked)
    assert diary == ["a request", "b request", "b response", "a response"]


def test_a_lone_listener_behind_a_refusal_hears_nothing():
    """Even alone it must have been asked."""
    diary: list[str] = []
    chain, _ = make(Told("a", diary, response_apis=frozenset(), request=REFUSED), Told("b", diary))
    asked = request()
    ask(chain, asked)
    assert hear(chain, asked) is FORWARD
    assert diary == ["a request"]


# -- observing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "verdict",
    [
        REFUSED,
        Respond(b"here"),
        Forward(body=b"new"),
        Throttle(9),
        Throttle(9, REFUSED),
        Hold(9, "k"),
    ],
    ids=str,
)
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


def test_an_observer_that_would_throttle_a_reply_is_only_reported():
    """The others' throttles are not touched by it."""
    chain, reporter = make(
        Told("a", [], response=Throttle(90)),
        Told("b", [], response=Throttle(9)),
        modes={"a": "observe"},
    )
    assert hear(chain, request()) == Throttle(9)
    assert reporter.observed == [("a", Throttle(90))]


def test_an_observer_that_forwards_is_not_reported():
    """There is nothing to tell."""
    for verdict in (FORWARD, EXEMPT, Throttle(0), Throttle(0, EXEMPT)):
        chain, reporter = make(Told("a", [], request=verdict), modes={"a": "observe"})
        assert walk(chain) is FORWARD
        assert reporter.observed == []


def test_an_observer_that_raises_is_reported_and_never_closes():
    """Observing is a promise to change nothing, `on_error` or not."""
    chain, reporter = make(Told("a", [], request=RuntimeError("bug")), modes={"a": "observe"})
    assert walk(chain) is FORWARD
    assert [(name, hook) for name, hook, _ in reporter.errors] == [("a", "on_request")]
