"""The chain: a hold pauses the calls, and they continue from there."""

import pytest

from policies.api import FORWARD, Forward, Hold, Need, Outcome, Patch, Respond, Throttle
from policies.chain import PolicyFault
from policies.hooks import ASKED_ALL, COMPLETED, ChainPosition, Hooks
from policies.responses import UNKNOWN
from tests.support.core.chains import PEER, REFUSED, Told, ask, ask_again, hear, make, request
from wire.apis import ApiKey

HOLD = Hold(1000, "key")


def chain_of(*verdicts, **options):
    """Return a chain of entries a, b, c ... with these verdicts, its reporter, their diary and a request."""
    diary: list[str] = []
    each = [Told(chr(97 + n), diary, request=verdict) for n, verdict in enumerate(verdicts)]
    chain, reporter = make(*each, **options)
    return chain, reporter, diary, request()


def end(chain, asked) -> None:
    on_complete = chain.hooks(asked.api_key).on_complete
    assert on_complete is not None
    on_complete(asked, Outcome.DISCONNECTED, PEER, UNKNOWN, 9)


def test_only_the_holder_is_called_twice_and_at_the_deadline_not_even_it():
    """The hold's `then` is its verdict then, and ends the calls if it refuses; each other policy is called once."""
    chain, _, diary, asked = chain_of(FORWARD, [HOLD], FORWARD)
    assert ask(chain, asked) is HOLD
    assert diary == ["a request", "b request"]
    assert ask_again(chain, asked) is FORWARD
    assert diary[2:] == ["b request", "c request"]
    assert asked.asked_up_to == ASKED_ALL

    chain, _, diary, asked = chain_of(FORWARD, [HOLD], FORWARD)
    ask(chain, asked)
    assert ask_again(chain, asked, FORWARD) is FORWARD
    assert diary == ["a request", "b request", "c request"]

    chain, _, diary, asked = chain_of(FORWARD, [HOLD], FORWARD)
    ask(chain, asked)
    assert ask_again(chain, asked, REFUSED) is REFUSED
    hear(chain, asked)
    end(chain, asked)
    assert diary[2:] == ["b response", "a response", "a complete", "b complete"]


def test_a_lone_policy_is_asked_again_as_in_any_chain():
    """The chain remembers only that it was called."""
    chain, _, diary, asked = chain_of([HOLD, HOLD])
    assert ask(chain, asked) is HOLD
    assert ask_again(chain, asked) is HOLD
    assert ask_again(chain, asked) is FORWARD
    assert diary == ["a request"] * 3


def test_several_may_hold_the_same_request_one_after_the_other():
    """Each holds in its turn, and again if it wants to."""
    other = Hold(50, "other")
    chain, _, diary, asked = chain_of([HOLD], [other, HOLD], [other])
    assert ask(chain, asked) is HOLD
    assert ask_again(chain, asked) is other
    assert ask_again(chain, asked) is HOLD
    assert ask_again(chain, asked, FORWARD) is other
    assert ask_again(chain, asked) is FORWARD
    assert diary == [f"{name} request" for name in "aabbcc"]


def test_verdicts_before_the_hold_are_kept():
    """They are the patches and the largest throttle."""
    first, second = Patch(0, b"\x01"), Patch(4, b"\x02")
    chain, _, _, asked = chain_of(
        Throttle(70, Forward((first,))), [HOLD, Throttle(30)], Forward((second,))
    )
    assert ask(chain, asked) is HOLD
    assert ask_again(chain, asked) == Throttle(70, Forward((first, second)))


@pytest.mark.parametrize("verdict", [REFUSED, Respond(b"here")], ids=str)
def test_a_throttle_before_the_hold_holds_for_a_refusal_after_it(verdict):
    """The largest of several counts, with any verdict on the request."""
    chain, _, _, asked = chain_of(Throttle(70), [HOLD, FORWARD], Throttle(90, verdict))
    ask(chain, asked)
    assert ask_again(chain, asked) == Throttle(90, verdict)
    chain, _, _, asked = chain_of(Throttle(70), [HOLD, verdict])
    ask(chain, asked)
    assert ask_again(chain, asked) == Throttle(70, verdict)


def test_the_end_of_a_held_request_is_told_to_called_policies_only():
    """The third policy has never seen it."""
    chain, _, diary, asked = chain_of(FORWARD, [HOLD], FORWARD)
    ask(chain, asked)
    end(chain, asked)
    assert diary[2:] == ["a complete", "b complete"]


def test_two_requests_are_held_each_at_its_own_place():
    """The request remembers the place, not the chain."""
    chain, _, diary, first = chain_of([HOLD], [HOLD])
    second = request()
    assert ask(chain, first) is HOLD
    assert ask(chain, second) is HOLD
    assert ask_again(chain, second) is FORWARD
    assert ask_again(chain, first) is FORWARD
    assert diary.count("a request") == 3


def test_an_observer_holds_no_request():
    """Its hold is reported, and it is called once."""
    chain, reporter, diary, asked = chain_of([HOLD], [HOLD], modes={"a": "observe"})
    assert ask(chain, asked) is HOLD
    assert ask_again(chain, asked) is FORWARD
    assert reporter.observed == [("a", HOLD)]
    assert diary == ["a request", "b request", "b request"]


def test_a_fault_when_asked_again_is_like_any_other():
    """A guard's closes, and the policies called so far learn of it; with on_error: forward, later ones decide."""
    bug = RuntimeError("bug")
    chain, reporter, diary, asked = chain_of(FORWARD, [HOLD, bug], FORWARD)
    ask(chain, asked)
    with pytest.raises(PolicyFault, match="policy b, on_request: it raised RuntimeError"):
        ask_again(chain, asked)
    end(chain, asked)
    assert reporter.errors == [("b", "on_request", bug)]
    assert diary[-2:] == ["a complete", "b complete"]

    chain, reporter, _, asked = chain_of(
        [HOLD, RuntimeError("bug")], REFUSED, on_errors={"a": "forward"}
    )
    ask(chain, asked)
    assert ask_again(chain, asked) is REFUSED
    assert len(reporter.errors) == 1


def test_a_held_request_continues_with_the_hooks_it_began_with():
    """Places are counted in the row it began with, even if the entries' needs have changed."""
    diary: list[str] = []
    first = Told("a", diary, apis=frozenset())
    holder = Told("b", diary, request=[HOLD])
    chain, _ = make(first, holder, Told("c", diary))
    asked = request()
    before = chain.hooks(asked.api_key)
    assert before.on_request is not None
    assert before.on_hold_over is not None
    before.on_request(asked, PEER, 0)
    first.apis = None
    chain.reconsider()
    assert chain.hooks(asked.api_key) is not before
    assert before.on_hold_over(asked, PEER, 1, None) is FORWARD
    assert diary == ["b request", "b request", "c request"]


def test_recompiling_unchanged_needs_changes_nothing():
    """The outcome is the same."""
    chain, _, diary, asked = chain_of(FORWARD)
    before = chain.hooks(ApiKey.HEARTBEAT)
    chain.reconsider()
    after = chain.hooks(ApiKey.HEARTBEAT)
    assert after is not before
    assert after.on_request == before.on_request
    assert ask(chain, asked) is FORWARD
    assert diary == ["a request"]


def test_a_position_begins_at_the_first_entry_and_hooks_with_nothing():
    """A place is compared with `asked`: below every place means told, above means asked of all."""
    assert Hooks() == (Need.HEADER, None, None, None, None, False, (), (), None, None, None)

    assert ChainPosition() == (0, FORWARD, 0, None)

    assert COMPLETED < 0
    assert ASKED_ALL > 10_000
