"""Checks the verdicts of `on_response`, by the rules of `policies.verdicts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import Forward, Throttle
from policies.responses import MAX_REPLACED_BYTES, Replace
from policies.verdicts import MAX_MS, VerdictError, check_bytes, check_int, check_why, short_repr

if TYPE_CHECKING:
    from policies.api import Verdict


def check_response(verdict: object, *, hears_body: bool = True) -> None:
    """Raise VerdictError unless `on_response` may return this. `hears_body`: whether it may be a Replace."""
    ends = verdict
    if type(verdict) is Throttle:
        check_int("Throttle.throttle_time_ms", verdict.throttle_time_ms, 0, MAX_MS)
        check_why("Throttle.why", verdict.why)
        ends = verdict.forward
    if type(ends) is Replace:
        if not hears_body:
            raise VerdictError("a Replace needs the API in hears_body")
        check_bytes("Replace.body", ends.body, MAX_REPLACED_BYTES)
    elif type(ends) is not Forward:
        raise VerdictError(f"expected FORWARD, a Throttle or a Replace, got {short_repr(ends)}")


def check_turns(*, hears_body: bool) -> None:
    """Raise VerdictError unless `on_response` may take the reply in turns."""
    if not hears_body:
        raise VerdictError("an InTurns needs the API in hears_body")


def replacement(verdict: Verdict) -> Replace | None:
    """Return the Replace that a checked verdict of `on_response` is, or has; None if there is none."""
    ends = verdict.forward if isinstance(verdict, Throttle) else verdict
    return ends if isinstance(ends, Replace) else None
