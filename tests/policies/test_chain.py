"""The chain: which policies are called, in which order, which learn of the end, and the cost."""

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
from tests.support.core.chains import REFUSED, OnlyCounts, Told, ask, hear, make, request, walk
from wire.apis import OFFERED, ApiKey


class Idle(Policy):
    """Overrides nothing and has any `needs`."""

    Config = dict
    needs = Need.BODY


# -- order --------------------------------------------------------------------------------------


def test_requests_go_down_the_order_and_replies_come_back_up():
    """The order is that of the configuration file."""
    diary: list[str] = []
    chain, _ = make(*(Told(name, diary) for name in "abc"))
    assert walk(chain) is FORWARD
    assert diary[:3] == ["a request", "b request", "c request"]
    assert diary[3:6] == ["c response", "b response", "a response"]
    assert diary[6:] == ["a complete", "b complete", "c complete"]


@pytest.mark.parametrize("refusal", [REFUSED, Respond(b"here")])
def test_the_first_refusal_ends_the_calls_and_only_called_policies_learn_of_the_end(refusal):
    """The third policy never saw this request, so it is not told how it ended."""
    diary: list[str] = []
    chain, _ = make(Told("a", diary), Told("b", diary, request=refusal), Told("c", diary))
    assert walk(chain) is refusal
    assert diary == ["a request", "b request", "a complete", "b complete"]


def test_a_refusal_concerns_one_request_only_and_is_told_to_those_that_only_listen():
    """The request remembers it, not the chain; a policy without a request hook is told all the same."""
    diary: list[str] = []
    refusing = Told("a", diary, request=REFUSED)
    chain, _ = make(refusing, Told("b", diary))
    walk(chain)
    refusing.verdicts.clear()
    walk(chain)
    assert diary.count("b complete") == 1
    assert diary.count("a complete") == 2

    diary: list[str] = []
    counts = OnlyCounts()
    chain, _ = make(Told("a", diary, request=REFUSED), counts)
    walk(chain)
    assert counts.ends == [Outcome.ANSWERED]


def test_patches_are_joined_in_order_and_the_last_new_body_wins():
    """Two policies that forward a request may both change it."""
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


def test_what_no_policy_wants_costs_nothing():
    """An API, a policy or a hook; the same hooks are returned each time, because plans hold them."""
    diary: list[str] = []
    wants = frozenset({ApiKey.PRODUCE})
    chain, _ = make(Told("a", diary, apis=wants, needs=Need.BODY))
    assert chain.hooks(ApiKey.HEARTBEAT) == Hooks(Need.HEADER, None, None, None, None)
    assert chain.hooks(ApiKey.PRODUCE).on_request is not None
    assert make()[0].hooks(ApiKey.PRODUCE) == Hooks()

    chain, _ = make(Idle({}, BenchHost("idle")))
    assert chain.hooks(ApiKey.PRODUCE) == Hooks()

    counts = OnlyCounts(needs=Need.HEAD)
    chain, _ = make(counts)
    hooks = chain.hooks(ApiKey.PRODUCE)
    assert (hooks.need, hooks.on_request, hooks.on_response) == (Need.HEAD, None, None)
    assert hooks.on_complete is not None

    chain, _ = make(OnlyCounts())
    assert chain.hooks(ApiKey.PRODUCE) is chain.hooks(ApiKey.PRODUCE)


def test_apis_share_hooks_when_no_policy_tells_them_apart():
    """A table of seventy APIs has few hooks, and each is what a chain for this API alone compiles."""
    diary: list[str] = []
    few = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA})
    needs = {
        ApiKey.FETCH: Need.BODY,
        ApiKey.HEARTBEAT: Need.TOPICS,
        ApiKey.LIST_GROUPS: Need.TOPICS,
    }

    def policies():
        yield Told("a", diary, apis=few, response_apis=few - {ApiKey.FETCH}, needs=Need.HEAD)
        yield Told("b", diary, needs=needs, hears_body=frozenset({ApiKey.PRODUCE}))
        yield OnlyCounts({ApiKey.METADATA: Need.HEAD})

    chain, _ = make(*policies())
    for timed in (False, True):
        for key in OFFERED:
            alone, _ = make(*policies())
            shared, own = chain.hooks(key, timed=timed), alone.hooks(key, timed=timed)
            assert shared[:1] + shared[5:7] == own[:1] + own[5:7]
            assert [e.name for e in shared.hears_body] == [e.name for e in own.hears_body]
            assert [hook is None for hook in shared[1:5]] == [hook is None for hook in own[1:5]]
    assert chain.hooks(ApiKey.LIST_GROUPS) is not chain.hooks(ApiKey.HEARTBEAT)
    assert len({id(chain.hooks(key)) for key in OFFERED}) <= 8


def test_each_policy_is_asked_about_its_own_apis_and_the_largest_need_counts():
    """`needs` is one value for all APIs, or one for each key; a key without one needs the header."""
    diary: list[str] = []
    chain, _ = make(
        Told("a", diary, needs={ApiKey.FETCH: Need.HEAD}),
        Told("b", diary, apis=frozenset({ApiKey.PRODUCE}), needs=Need.BODY),
        Told("c", diary),
    )
    assert chain.hooks(ApiKey.PRODUCE).need is Need.BODY
    assert chain.hooks(ApiKey.FETCH).need is Need.HEAD
    assert chain.hooks(ApiKey.HEARTBEAT).need is Need.HEADER

    diary: list[str] = []
    chain, _ = make(Told("a", diary, apis=frozenset({ApiKey.PRODUCE})), Told("b", diary))
    walk(chain, request(ApiKey.HEARTBEAT))
    assert diary == ["b request", "b response", "b complete"]


def test_a_lone_policy_is_called_without_a_layer_between():
    """The ordinary case costs one call, because the hook is the bound method itself."""
    diary: list[str] = []
    lone = Told("a", diary, apis=frozenset({ApiKey.HEARTBEAT}))
    chain, _ = make(lone, Told("b", diary, apis=frozenset({ApiKey.PRODUCE})), OnlyCounts())
    assert chain.hooks(ApiKey.HEARTBEAT).on_request == lone.on_request


@pytest.mark.parametrize(
    "options", [{"modes": {"a": "observe"}}, {"on_errors": {"a": "forward"}}], ids=str
)
def test_a_lone_policy_that_must_not_refuse_is_never_called_bare(options):
    """Its refusals and faults are only reported."""
    diary: list[str] = []
    lone = Told("a", diary)
    chain, _ = make(lone, **options)
    assert chain.hooks(ApiKey.HEARTBEAT).on_request != lone.on_request


# -- throttles ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["request", "response"])
def test_of_several_throttles_the_largest_counts(mode):
    """Any policy may give it; later policies are called all the same."""
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
def test_a_throttle_holds_with_any_other_verdict(verdict):
    """Another entry gives that verdict, or the throttle itself contains it."""
    chain, _ = make(Told("a", [], request=Throttle(20)), Told("b", [], request=verdict))
    assert ask(chain, request()) == Throttle(20, verdict)
    chain, _ = make(Told("a", [], request=Throttle(20, verdict)), Told("b", []))
    assert ask(chain, request()) == Throttle(20, verdict)


def test_a_throttle_carries_a_verdict_patches_and_a_reason():
    """One that refuses ends the calls, one that forwards is joined; the first of the largest has the reason."""
    diary: list[str] = []
    chain, _ = make(Told("a", diary, request=Throttle(20, REFUSED)), Told("b", diary))
    assert walk(chain) == Throttle(20, REFUSED)
    assert diary == ["a request", "a complete"]

    first, second = Patch(0, b"\x01"), Patch(4, b"\x02")
    chain, _ = make(
        Told("a", [], request=Throttle(20, Forward((first,)))),
        Told("b", [], request=Forward((second,))),
    )
    assert ask(chain, request()) == Throttle(20, Forward((first, second)))

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

    chain, _ = make(Told("a", [], request=Throttle(0)), Told("b", []))
    assert ask(chain, request()) is FORWARD


@pytest.mark.parametrize("order", [(EXEMPT, FORWARD), (FORWARD, EXEMPT), (EXEMPT, EXEMPT)])
def test_what_one_policy_exempts_is_exempt_in_a_chain(order):
    """The verdict is the object EXEMPT, whichever policy gives it first."""
    diary: list[str] = []
    chain, _ = make(*(Told(n, diary, request=v) for n, v in zip("ab", order, strict=True)))
    assert walk(chain) is EXEMPT


@pytest.mark.parametrize("exempting", [EXEMPT, Throttle(5, EXEMPT)], ids=str)
@pytest.mark.parametrize("first", ["exempts", "patches"])
def test_what_one_policy_exempts_stays_exempt_when_another_patches(exempting, first):
    """In either order, alone or inside a throttle; no part of the patch is lost."""
    patch = Patch(0, b"\x01")
    said = {"exempts": exempting, "patches": Forward((patch,))}
    order = sorted(said, key=lambda name: name != first)
    chain, _ = make(*(Told(name, [], request=said[name]) for name in order))
    verdict = walk(chain)
    ends = verdict.forward if isinstance(verdict, Throttle) else verdict
    assert isinstance(ends, Forward)
    assert (ends.patches, ends.exempt) == ((patch,), True)


# -- observing replies --------------------------------------------------------------------------


def test_a_policy_observes_replies_of_the_apis_it_names_only():
    """None means all APIs that it is called about; an empty set costs nothing."""
    fetch = frozenset({ApiKey.FETCH})
    chain, _ = make(Told("a", [], response_apis=fetch))
    assert chain.hooks(ApiKey.FETCH).on_response is not None
    assert chain.hooks(ApiKey.PRODUCE).on_response is None
    assert chain.hooks(ApiKey.PRODUCE).on_request is not None
    assert make(Told("a", [], response_apis=frozenset()))[0].hooks(ApiKey.FETCH).on_response is None
    assert make(Told("a", [], apis=fetch))[0].hooks(ApiKey.FETCH).on_response is not None
    assert make(Told("a", [], apis=fetch))[0].hooks(ApiKey.PRODUCE).on_response is None

    chain, _ = make(Told("a", [], apis=frozenset(), response_apis=frozenset({ApiKey.FETCH})))
    assert chain.hooks(ApiKey.FETCH) == Hooks()

    diary: list[str] = []
    deaf = Told("b", diary, response_apis=frozenset())
    chain, _ = make(Told("a", diary), deaf, Told("c", diary))
    hear(chain, request())
    assert diary == ["c response", "a response"]


def test_a_lone_listener_is_called_without_a_layer_between():
    """If it was called about every request whose reply it observes: first in the row, or never in it."""
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
def test_a_policy_that_was_not_called_does_not_observe_sluices_reply(verdict):
    """It never saw this request; the policies that refused or forwarded it observe the reply."""
    diary: list[str] = []
    chain, _ = make(Told("a", diary), Told("b", diary, request=verdict), Told("c", diary))
    asked = request()
    ask(chain, asked)
    hear(chain, asked)
    assert diary == ["a request", "b request", "b response", "a response"]


def test_a_lone_listener_after_a_refusal_is_not_called():
    """Even alone it must have been called about the request."""
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
    """Later policies are called as if it had forwarded the request."""
    diary: list[str] = []
    chain, reporter = make(
        Told("a", diary, request=verdict), Told("b", diary), modes={"a": "observe"}
    )
    assert walk(chain) is FORWARD
    assert diary[:2] == ["a request", "b request"]
    assert reporter.observed == [("a", verdict)]
    assert diary[-2:] == ["a complete", "b complete"]


def test_an_observer_is_reported_only_if_it_would_have_had_an_effect():
    """It changes no other policy's throttle and closes nothing, with any `on_error`."""
    chain, reporter = make(
        Told("a", [], response=Throttle(90)),
        Told("b", [], response=Throttle(9)),
        modes={"a": "observe"},
    )
    assert hear(chain, request()) == Throttle(9)
    assert reporter.observed == [("a", Throttle(90))]

    for verdict in (FORWARD, EXEMPT, Throttle(0), Throttle(0, EXEMPT)):
        chain, reporter = make(Told("a", [], request=verdict), modes={"a": "observe"})
        assert walk(chain) is FORWARD
        assert reporter.observed == []

    chain, reporter = make(Told("a", [], request=RuntimeError("bug")), modes={"a": "observe"})
    assert walk(chain) is FORWARD
    assert [(name, hook) for name, hook, _ in reporter.errors] == [("a", "on_request")]
