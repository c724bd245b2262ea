"""The return values a hook may have, and the message about any other."""

import math
from itertools import product

import pytest

from policies.api import (
    EXEMPT,
    FORWARD,
    EffectiveQuota,
    Forward,
    Hold,
    Patch,
    QuotaViolation,
    Reject,
    Respond,
    Throttle,
)
from policies.verdicts import (
    MAX_MS,
    VerdictError,
    check_connect,
    check_effective_quota,
    check_request,
    merge,
    without_exemption,
)
from wire.errors import ErrorCode

_NEWEST = int(max(ErrorCode))

EXCESS = QuotaViolation("user a", "request_rate", 9.5, 5)


class Odd:
    """Raises in each of its special methods."""

    def __repr__(self) -> str:
        raise SystemExit(3)

    def __hash__(self) -> int:
        raise RuntimeError("no hash")


@pytest.mark.parametrize(
    "verdict",
    [
        FORWARD,
        EXEMPT,
        Forward((Patch(0, b"a"), Patch(9, b""))),
        Forward(body=b"new"),
        Respond(b""),
        Reject(-1),
        Reject(ErrorCode.POLICY_VIOLATION, close=True),
        Reject(_NEWEST),
        Throttle(0),
        Throttle(MAX_MS, EXEMPT, EXCESS),
        Throttle(5, Respond(b"x")),
        Throttle(5, Reject(44)),
        Hold(0, "key"),
        Hold(MAX_MS, ("a", 1), Reject(44), throttles=True, why=EXCESS),
        Hold(5, object(), EXEMPT),
    ],
)
def test_every_verdict_of_the_contract_is_accepted(verdict):
    """Nothing is raised about fields at the ends of their ranges."""
    check_request(verdict)


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (None, "expected a verdict, got None"),
        (True, "expected a verdict, got True"),
        (Forward, "expected a verdict, got the class Forward"),
        (Odd(), "expected a verdict, got an object of type Odd"),
        (
            Throttle(math.inf),
            f"Throttle.throttle_time_ms is inf, expected an integer in 0..{MAX_MS}",
        ),
        (Throttle(math.nan), "Throttle.throttle_time_ms is nan"),
        (Throttle(-1), "Throttle.throttle_time_ms is -1"),
        (Throttle(True), "Throttle.throttle_time_ms is True"),
        (Throttle("5"), "Throttle.throttle_time_ms is '5'"),
        (Throttle(MAX_MS + 1), f"Throttle.throttle_time_ms is {MAX_MS + 1}"),
        (Throttle(1, None), "expected a Forward, Respond or Reject as Throttle.forward, got None"),
        (Throttle(1, Throttle(2)), "as Throttle.forward, got an object of type Throttle"),
        (Throttle(1, Hold(2, "k")), "as Throttle.forward, got an object of type Hold"),
        (Throttle(1, why="much"), "Throttle.why is 'much', expected a QuotaViolation or None"),
        (Throttle(1, why=QuotaViolation(1, "q", 1, 1)), "expected text as its entity and quota"),
        (
            Throttle(1, why=QuotaViolation("e", "q", "1", 1)),
            "expected numbers as observed and bound",
        ),
        (Hold(0.5, "key"), f"Hold.max_delay_ms is 0.5, expected an integer in 0..{MAX_MS}"),
        (Hold(-1, "key"), "Hold.max_delay_ms is -1"),
        (Hold(MAX_MS + 1, "key"), f"Hold.max_delay_ms is {MAX_MS + 1}"),
        (Hold(1, []), "Hold.watch is an object of type list, expected a hashable key"),
        (Hold(1, Odd()), "Hold.watch is an object of type Odd, expected a hashable"),
        (
            Hold(1, "key", Respond(b"")),
            "expected a Forward or Reject as Hold.then, got an object of type Respond",
        ),
        (Hold(1, "key", Reject(1 << 15)), "Reject.code is 32768"),
        (Hold(1, "key", throttles=1), "Hold.throttles is 1, expected True or False"),
        (Respond(b"", 44), "Respond.refuses is 44, expected a Reject or None"),
        (Respond(b"", Reject(1 << 15)), "Reject.code is 32768"),
        (Respond("text"), "Respond.body is 'text', expected bytes"),
        (Respond(bytearray(b"x")), "Respond.body is an object of type bytearray, expected bytes"),
        (
            Reject(_NEWEST + 1),
            f"Reject.code is {_NEWEST + 1}, expected a code of Kafka's errors, -1 or 1..{_NEWEST}",
        ),
        (Reject(0), "Reject.code is 0"),
        (Reject(4.0), "Reject.code is 4.0"),
        (Reject(44, close=1), "Reject.close is 1"),
        (Reject(44, message=None), "Reject.message is None, expected text"),
        (Reject(44, message="x" * 251), "Reject.message has 251 characters, expected 250"),
        (Forward(exempt=1), "Forward.exempt is 1, expected True or False"),
        (Forward([Patch(0, b"")]), "Forward.patches is an object of type list, expected a tuple"),
        (Forward((b"x",)), "expected a Patch in Forward.patches, got an object of type bytes"),
        (Forward((Patch(-1, b"x"),)), "Patch.offset is -1, expected an integer in 0..2147483647"),
        (Forward((Patch(0, "x"),)), "Patch.data is 'x', expected bytes"),
        (Forward(body="x"), "Forward.body is 'x', expected bytes"),
    ],
)
def test_any_other_value_is_named_with_the_expectation(verdict, words):
    """A policy's author gets one sentence to act on."""
    with pytest.raises(VerdictError) as raised:
        check_request(verdict)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "verdict", [b"secret", "x" * 30 + "secret", Throttle(5, Throttle(5, Respond(b"secret")))]
)
def test_a_possible_payload_is_not_shown(verdict):
    """A policy may return a request's body by mistake; the log must not contain it."""
    with pytest.raises(VerdictError) as raised:
        check_request(verdict)
    assert "secret" not in str(raised.value)
    assert len(str(raised.value)) < 120


@pytest.mark.parametrize("verdict", [None, Throttle(1), Hold(1, "k"), Respond(b""), Reject("x")])
def test_a_connection_is_accepted_or_refused(verdict):
    """No other verdict is valid."""
    check_connect(FORWARD)
    check_connect(Reject(44))
    with pytest.raises(VerdictError):
        check_connect(verdict)


@pytest.mark.parametrize(
    "found",
    [
        5,
        EffectiveQuota("e", "user a", "5", "1"),
        EffectiveQuota("e", None, 5.0, "1"),
        ("e", "a", 5.0, "1"),
    ],
)
def test_a_limit_in_force_has_a_rate_and_names(found):
    """It is written to usage log and metrics as it is."""
    check_effective_quota(None)
    check_effective_quota(EffectiveQuota("entity", "user a", 5.0, "1"))
    with pytest.raises(VerdictError):
        check_effective_quota(found)


FIRST, SECOND = Patch(0, b"\x01"), Patch(4, b"\x02")


@pytest.mark.parametrize(("first", "second"), list(product((FORWARD, EXEMPT, Forward()), repeat=2)))
def test_an_unchanged_verdict_is_the_same_object(first, second):
    """The core recognises FORWARD and EXEMPT by identity."""
    joined = merge(first, second)
    assert joined is (EXEMPT if first.exempt or second.exempt else FORWARD)


def test_patches_add_up_and_the_last_body_counts():
    """In the order of the chain."""
    joined = merge(Forward((FIRST,), b"old"), Forward((SECOND,), b"new"))
    assert joined == Forward((FIRST, SECOND), b"new")
    assert merge(Forward(body=b"old"), Forward((SECOND,))) == Forward((SECOND,), b"old")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (EXEMPT, Forward((FIRST,))),
        (Forward((FIRST,)), EXEMPT),
        (FORWARD, Forward((FIRST,), exempt=True)),
    ],
)
def test_an_exemption_is_kept_with_other_changes(first, second):
    """In either order of the two verdicts."""
    joined = merge(first, second)
    assert (joined.patches, joined.exempt) == ((FIRST,), True)


def test_without_its_exemption_a_verdict_changes_the_same():
    """One that changes nothing is FORWARD itself."""
    assert without_exemption(EXEMPT) is FORWARD
    bare = without_exemption(Forward((FIRST,), b"body", exempt=True))
    assert (bare, bare.exempt) == (Forward((FIRST,), b"body"), False)
