"""Entries that are asked first: they judge every request, and answer at their own place in the config's order."""

import pytest

from policies.api import FORWARD, Hold, Policy, Respond, Throttle
from policies.chain import ChainPosition, PolicyFault
from policies.hooks import ASKED_ALL
from tests.support.core.chains import PEER, REFUSED, Told, ask, ask_again, hear, make, request
from wire.apis import ApiKey


class Counts(Told):
    """Is asked first; answers at its own place."""

    asked_first = True
    answers = frozenset({ApiKey.HEARTBEAT})

    def on_answer(self, request, peer, now_ms):
        return self.answer("answer")


@pytest.mark.parametrize("refusal", [REFUSED, Respond(b"here")])
def test_it_judges_requests_that_an_entry_before_it_refuses(refusal):
    """It hears of their replies and ends, too; it does not answer them."""
    diary: list[str] = []
    chain, _ = make(Told("a", diary, request=refusal), Counts("b", diary, answer=Respond(b"b")))
    asked = request()
    assert ask(chain, asked) is refusal
    hear(chain, asked)
    assert diary == ["b request", "a request", "a response", "b response"]


def test_it_throttles_refusals_and_answers_at_its_place():
    """A refused request is a request. Entries after it are not asked about a request that it answers."""
    diary: list[str] = []
    chain, _ = make(Told("a", diary, request=REFUSED), Counts("b", diary, request=Throttle(700)))
    assert ask(chain, request()) == Throttle(700, REFUSED)

    diary: list[str] = []
    answer = Respond(b"b")
    chain, _ = make(Told("a", diary), Counts("b", diary, answer=answer), Told("c", diary))
    assert ask(chain, request()) is answer
    assert diary == ["b request", "a request", "b answer"]
    diary.clear()
    assert ask(chain, request(ApiKey.METADATA)) is FORWARD
    assert diary == ["b request", "a request", "c request"]

    diary: list[str] = []
    chain, _ = make(Told("a", diary), Counts("b", diary), Counts("c", diary))
    ask(chain, request(ApiKey.METADATA))
    assert diary == ["b request", "c request", "a request"]


def test_a_held_request_is_not_answered_twice_nor_forgotten():
    """After its own hold it is judged by the others, and answered at its place."""
    diary: list[str] = []
    chain, _ = make(Told("a", diary), Counts("b", diary, request=[Hold(9, "k")]))
    asked = request()
    assert isinstance(ask(chain, asked), Hold)
    assert ask_again(chain, asked) is FORWARD
    assert asked.asked_up_to == ASKED_ALL
    assert diary == ["b request", "b request", "a request", "b answer"]


def test_a_request_whose_holder_is_gone_after_a_reload_is_still_answered():
    """Only what was called already is left out."""
    diary: list[str] = []
    counts = Counts("b", diary)
    before, _ = make(Told("a", diary, request=[Hold(9, "k")]), counts)
    after, _ = make(counts)
    key = ApiKey.HEARTBEAT
    assert before.hooks(key).with_on_request == ("b", "a", "b")
    moved = after.resume_position(key, ChainPosition(place=1), before.hooks(key), ())
    assert moved is not None
    assert after.hooks(key).with_on_request[moved[1].place :] == ("b",)
    again, _ = make(Told("a", diary), counts)
    moved = again.resume_position(key, ChainPosition(place=0), before.hooks(key), ("b",))
    assert moved is not None
    assert moved[1].place == 0


@pytest.mark.parametrize("verdict", [Hold(9, "k"), Throttle(5)])
def test_an_answer_is_no_hold_and_no_throttle(verdict):
    """The chain resumes a held request at `on_request`, so such an answer is the policy's fault."""
    diary: list[str] = []
    chain, reporter = make(Counts("b", diary, answer=verdict))
    with pytest.raises(PolicyFault):
        ask(chain, request())
    assert [name for name, _, _ in reporter.errors] == ["b"]


def test_a_policy_without_answers_forwards():
    """The default answers nothing."""
    assert Policy.on_answer(Told("a", []), request(), PEER, 1) is FORWARD
