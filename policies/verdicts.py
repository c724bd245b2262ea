"""Checks the verdicts that hooks return, and merges those of several policies.

Rules:
- FORWARD is recognised by identity and never checked, so an ordinary request costs nothing here.
- Only the exact types count. A subclass, or a `bool`, `float` or `str` for an integer, is a mistake of the policy.
- An error is one sentence: the field, its value, and the allowed range. If the value may be a client's data, or its
  `repr` may run a policy's code, only its type is shown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

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
from policies.denial import MAX_MESSAGE_CHARS, Deny
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.api import Request

MAX_MS: Final = 1 << 40
"""The longest throttle or delay, 34 years. A reply's `throttle_time_ms`, an int32, ends at 2,147,483,647."""
MAX_BODY_BYTES: Final = 2_147_483_647 - 65_536
"""The largest body: a frame's size is an int32, and it includes a header of up to 64 KiB."""
_CODES: Final = frozenset(map(int, ErrorCode)) - {int(ErrorCode.NONE)}
_SHOWN_CHARACTERS: Final = 20


class VerdictError(TypeError):
    """A hook has returned something else than a verdict, or a verdict with a field out of range."""


def check_request(verdict: object) -> None:
    """Raise VerdictError unless `on_request` may return this."""
    kind = type(verdict)
    if kind is Throttle:
        throttle: Throttle = verdict  # type: ignore[assignment] # its type was checked
        time_ms, why = throttle.throttle_time_ms, throttle.why
        if type(time_ms) is int and throttle.forward is FORWARD and type(why) is QuotaViolation:
            # The verdict of a quota, checked in line: each call costs a tenth of the whole throttle.
            entity, quota, observed, bound, _ = why
            texts = type(entity) is str and type(quota) is str
            if texts and type(observed) is type(bound) is float and 0 <= time_ms <= MAX_MS:
                return
        _check_throttle(throttle)
    elif kind is Hold:
        assert isinstance(verdict, Hold)  # noqa: S101 - for the type checker
        _check_hold(verdict)
    else:
        _check_end(verdict, "a verdict")


def check_patches(verdict: object, request: Request) -> None:
    """Raise VerdictError when a patch does not fit into the body of this request, or into the new body.

    If the policy does not need the body, its size is known only as at most the whole request's.
    """
    ends = verdict.forward if isinstance(verdict, Throttle) else verdict
    ends = ends.then if isinstance(ends, Hold) else ends
    if isinstance(ends, Forward) and ends.patches:
        body = request.body if ends.body is None else ends.body
        check_bounds(ends.patches, request.size_bytes if body is None else len(body))


def check_bounds(patches: Iterable[Patch], body_bytes: int) -> None:
    """Raise VerdictError when a patch extends beyond a body of `body_bytes`."""
    for patch in patches:
        stop = patch.offset + len(patch.data)
        if patch.offset < 0 or stop > body_bytes:
            raise VerdictError(f"Patch {patch.offset}..{stop} is outside 0..{body_bytes}, the body")


def check_connect(verdict: object) -> None:
    """Raise VerdictError unless `on_connect` may return this."""
    if type(verdict) is Reject:
        _check_reject(verdict)
    elif type(verdict) is not Forward:
        raise VerdictError(f"expected FORWARD or a Reject, got {short_repr(verdict)}")


def check_effective_quota(found: object) -> None:
    """Raise VerdictError unless `effective_quota` may return this."""
    if found is None:
        return
    if type(found) is not EffectiveQuota or type(found.rate) not in {int, float}:
        raise VerdictError(
            f"expected an EffectiveQuota with a rate, or None, got {short_repr(found)}"
        )
    if not all(type(text) is str for text in (found.enforcement, found.entity, found.rev)):
        raise VerdictError(f"expected text in an EffectiveQuota, got {short_repr(found)}")


def check_time(found: object) -> None:
    """Raise VerdictError unless this is a time in ms, or infinite."""
    if type(found) not in {int, float} or found != found:  # noqa: PLR0124 - True for nan only
        raise VerdictError(f"expected a time in ms, or infinity, got {short_repr(found)}")


def merge(first: Forward, second: Forward | Deny, policy: str = "") -> Forward:
    """Return the Forward that does what both do; `policy` has returned `second`. FORWARD and EXEMPT stay themselves."""
    if isinstance(second, Deny):
        return replace(first, denials=(*first.denials, second.named(policy)))
    body = first.body if second.body is None else second.body
    named = (denial.named(denial.policy or policy) for denial in second.denials)
    patches, denials = first.patches + second.patches, (*first.denials, *named)
    return _forward(Forward(patches, body, first.exempt or second.exempt, denials))


def without_exemption(verdict: Forward) -> Forward:
    """Return the Forward that makes the same changes and exempts nothing."""
    return _forward(replace(verdict, exempt=False))


def short_repr(value: object) -> str:
    """Return the value in a few characters: numbers as they are, text cut, other values as their type."""
    kind = type(value)
    if kind in {str, int, float, bool, type(None)}:
        text = repr(value)
        return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"an object of type {kind.__name__}"


def _check_end(verdict: object, expected: str) -> None:
    if type(verdict) is Forward:
        _check_forward(verdict)
    elif type(verdict) is Respond:
        check_bytes("Respond.body", verdict.body)
        refuses: object = verdict.refuses
        if type(refuses) is Reject:
            _check_reject(refuses)
        elif refuses is not None:
            raise VerdictError(
                f"Respond.refuses is {short_repr(refuses)}, expected a Reject or None"
            )
    elif type(verdict) is Reject:
        _check_reject(verdict)
    elif type(verdict) is not Deny:  # which has checked itself
        raise VerdictError(f"expected {expected}, got {short_repr(verdict)}")


def _check_throttle(verdict: Throttle) -> None:
    check_int("Throttle.throttle_time_ms", verdict.throttle_time_ms, 0, MAX_MS)
    _check_end(verdict.forward, "a Forward, Respond or Reject as Throttle.forward")
    check_why("Throttle.why", verdict.why)


def _check_hold(verdict: Hold) -> None:
    check_int("Hold.max_delay_ms", verdict.max_delay_ms, 0, MAX_MS)
    try:
        hash(verdict.watch)
    except BaseException as error:
        words = f"Hold.watch is {short_repr(verdict.watch)}, expected a hashable key"
        raise VerdictError(words) from error
    then: object = verdict.then
    if type(then) is not Forward and type(then) is not Reject:
        raise VerdictError(f"expected a Forward or Reject as Hold.then, got {short_repr(then)}")
    _check_end(then, "a verdict")
    _check_bool("Hold.throttles", verdict.throttles)
    check_why("Hold.why", verdict.why)


def _check_forward(verdict: Forward) -> None:
    _check_bool("Forward.exempt", verdict.exempt)
    if verdict.body is not None:
        check_bytes("Forward.body", verdict.body)
    patches: object = verdict.patches
    if type(patches) is not tuple:
        raise VerdictError(f"Forward.patches is {short_repr(patches)}, expected a tuple of Patch")
    for patch in patches:
        if type(patch) is not Patch:
            raise VerdictError(f"expected a Patch in Forward.patches, got {short_repr(patch)}")
        check_int("Patch.offset", patch.offset, 0, 2_147_483_647)
        check_bytes("Patch.data", patch.data)
    denials: object = verdict.denials
    if type(denials) is not tuple or any(type(denial) is not Deny for denial in denials):
        raise VerdictError(f"Forward.denials is {short_repr(denials)}, expected a tuple of Deny")


def _check_reject(verdict: Reject) -> None:
    code: object = verdict.code
    if not isinstance(code, int) or isinstance(code, bool) or code not in _CODES:
        words = f"expected a code of Kafka's errors, -1 or 1..{max(_CODES)}"
        raise VerdictError(f"Reject.code is {short_repr(code)}, {words}")
    if verdict.close is not None:
        _check_bool("Reject.close", verdict.close)
    message: object = verdict.message
    if type(message) is not str:
        raise VerdictError(f"Reject.message is {short_repr(message)}, expected text")
    if len(message) > MAX_MESSAGE_CHARS:
        words = f"expected {MAX_MESSAGE_CHARS} characters at most"
        raise VerdictError(f"Reject.message has {len(message)} characters, {words}")


def check_why(field: str, why: object) -> None:
    """Raise VerdictError unless this is a QuotaViolation or None."""
    if why is None:
        return
    if type(why) is not QuotaViolation:
        raise VerdictError(f"{field} is {short_repr(why)}, expected a QuotaViolation or None")
    if type(why.entity) is not str or type(why.quota) is not str:
        raise VerdictError(f"{field} is {short_repr(why)}, expected text as its entity and quota")
    for number in (why.observed, why.bound):
        if type(number) is not float and type(number) is not int:
            raise VerdictError(
                f"{field} is {short_repr(why)}, expected numbers as observed and bound"
            )


def check_int(field: str, value: object, min_value: int, max_value: int) -> None:
    """Raise VerdictError unless this is an integer in the range."""
    if type(value) is not int or not min_value <= value <= max_value:
        raise VerdictError(
            f"{field} is {short_repr(value)}, expected an integer in {min_value}..{max_value}"
        )


def _check_bool(field: str, value: object) -> None:
    if type(value) is not bool:
        raise VerdictError(f"{field} is {short_repr(value)}, expected True or False")


def check_bytes(field: str, value: object, max_bytes: int = MAX_BODY_BYTES) -> None:
    """Raise VerdictError unless this is `bytes`, and at most `max_bytes` of them."""
    if type(value) is not bytes:
        raise VerdictError(f"{field} is {short_repr(value)}, expected bytes")
    if len(value) > max_bytes:
        raise VerdictError(f"{field} has {len(value)} bytes, expected {max_bytes} at most")


def _forward(verdict: Forward) -> Forward:
    """Return FORWARD or EXEMPT if the verdict changes nothing, else the verdict."""
    if verdict.patches or verdict.denials or verdict.body is not None:
        return verdict
    return EXEMPT if verdict.exempt else FORWARD
