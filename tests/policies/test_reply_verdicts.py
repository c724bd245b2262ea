"""The verdicts on a reply."""

import pytest

from policies.api import EXEMPT, FORWARD, Hold, QuotaViolation, Reject, Respond, Throttle
from policies.denial import Deny
from policies.reply_verdicts import check_response, replacement
from policies.responses import MAX_REPLACED_BYTES, Replace
from policies.verdicts import VerdictError, check_request

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
