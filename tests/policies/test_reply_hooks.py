"""Replies: the verdicts on them, the hooks joined over several entries, and the result that `on_complete` gets."""

import pytest

from policies.api import EXEMPT, FORWARD, Hold, Outcome, QuotaViolation, Reject, Respond, Throttle
from policies.denial import Deny
from policies.hook_runner import PolicyFault
from policies.reply_verdicts import check_response, replacement
from policies.responses import MAX_REPLACED_BYTES, UNKNOWN, PolicyRefusal, Replace, Result
from policies.testing import BenchResponse
from policies.verdicts import VerdictError, check_request
from tests.support.core.chains import PEER, Told, make, request
from wire.apis import ApiKey

BEAT = frozenset({int(ApiKey.HEARTBEAT)})


def told(name, diary, hears_body=BEAT, **verdicts):
    made = Told(name, diary, **verdicts)
    made.hears_body = hears_body
    return made


def heard(chain, asked=None):
    """The verdict of the chain on a reply with the body b"old", and the reply."""
    response = BenchResponse(7, body=b"old")
    hooks = chain.hooks(ApiKey.HEARTBEAT)
    return hooks.on_response(asked or request(), response, PEER, 7), response


def test_the_last_body_and_the_longest_throttle_count():
    """Each entry sees the body of the one before it."""
    first = told("a", [], response=Throttle(5, Replace(b"last")))
    chain, _ = make(
        first, told("b", [], response=Throttle(9)), told("c", [], response=Replace(b""))
    )
    verdict, response = heard(chain)
    assert verdict == Throttle(9, Replace(b"last"))
    assert (response.body, response.size_bytes) == (b"last", 8)


@pytest.mark.parametrize("on_error", ["close", "forward"])
def test_a_fault_leaves_the_body_as_it_was(on_error):
    """The entries above hear what the one below has left."""
    chain, reporter = make(
        told("a", [], response=Replace(b"new")),
        told("b", [], hears_body=frozenset(), response=Replace(b"x")),
        on_errors={"b": on_error},
    )
    if on_error == "close":
        with pytest.raises(PolicyFault, match="a Replace needs the API in hears_body"):
            heard(chain)
    else:
        assert heard(chain)[0] == Replace(b"new")
    assert [name for name, _, _ in reporter.errors] == ["b"]


def test_an_observer_changes_nothing():
    """Its Replace is reported; one that it may not return is a fault."""
    chain, reporter = make(told("a", [], response=Replace(b"new")), modes={"a": "observe"})
    verdict, response = heard(chain)
    assert (verdict, response.body) == (FORWARD, b"old")
    assert reporter.observed == [("a", Replace(b"new"))]


def test_an_entry_that_was_not_asked_hears_nothing():
    """It stands below the entry that refused."""
    diary = []
    chain, _ = make(told("a", diary, request=Reject(44)), told("b", diary))
    asked = request()
    chain.hooks(asked.api_key).on_request(asked, PEER, 5)
    heard(chain, asked)
    chain.hooks(asked.api_key).on_complete(asked, Outcome.ANSWERED, PEER, Result(), 9)
    assert diary == ["a request", "a response", "a complete"]


def test_hears_body_counts_where_a_hook_can_use_it():
    """The chain names the entries whose replies must be kept whole."""
    deaf = told("b", [], hears_body=frozenset())
    chain, _ = make(told("a", []), deaf)
    assert [each.name for each in chain.hooks(ApiKey.HEARTBEAT).hears_body] == ["a"]
    assert chain.hooks(ApiKey.FETCH).hears_body == ()


NEW = Replace(b"new")


@pytest.mark.parametrize("verdict", [FORWARD, EXEMPT, Throttle(3), NEW, Throttle(3, NEW)], ids=str)
def test_a_reply_may_pass_throttle_or_be_replaced(verdict):
    """These are the verdicts of `on_response`."""
    check_response(verdict)
    assert replacement(verdict) is (NEW if "Replace" in repr(verdict) else None)


@pytest.mark.parametrize(
    "verdict",
    [
        None, Reject(44), Hold(1, "k"), Respond(b""), Throttle(-1), Throttle(1, Reject(44)), Deny({}),
        Throttle(1, why="because"), Throttle(1 << 41), Replace(None), Replace(bytearray(1)), Throttle(1, Throttle(1)),
        Throttle(1.0, NEW), Throttle(1, why=QuotaViolation(1, "", 1, 1)),
    ],
    ids=str,
)  # fmt: skip
def test_a_reply_has_no_other_verdict(verdict):
    """It cannot be refused or held."""
    with pytest.raises(VerdictError):
        check_response(verdict)


@pytest.mark.parametrize("verdict", [NEW, Throttle(3, NEW)], ids=str)
def test_only_a_reply_that_is_heard_is_replaced(verdict):
    """And a request never."""
    with pytest.raises(VerdictError, match="needs the API in hears_body"):
        check_response(verdict, hears_body=False)
    with pytest.raises(VerdictError):
        check_request(verdict)


def test_a_body_has_a_largest_size():
    """It is named with the limit; the body is not shown."""
    with pytest.raises(
        VerdictError, match=f"{MAX_REPLACED_BYTES + 1} bytes, expected {MAX_REPLACED_BYTES} at most"
    ):
        check_response(Replace(bytes(MAX_REPLACED_BYTES + 1)))


def test_a_result_knows_its_first_refusal_or_says_that_nothing_is_known():
    """None is not an empty mapping: it is not known whether anything failed. Several entries may deny a part."""
    assert (UNKNOWN.errors, UNKNOWN.refusals, UNKNOWN.refused_by) == (None, (), "")
    assert Result(BenchResponse()).errors is None

    refusals = (PolicyRefusal("guard", 29, "no"), PolicyRefusal("limits", 44, ""))
    assert Result(None, refusals).refused_by == "guard"
