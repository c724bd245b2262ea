"""Decisions of an entry about requests, made or only observed: for logs, metrics and the audit log.

A PolicyDecision is made when a request is refused, or would be in mode `observe`; an ordinary request has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.api import Forward, Hold, Reject, Respond, Throttle
from policies.denial import Deny
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from policies.api import Peer, Verdict


class PolicyDecision(NamedTuple):
    """The entry, its verdict, the client, the API and the time."""

    policy: str
    """The entry's name in the config."""
    verdict: Verdict
    peer: Peer
    api_name: str
    """Empty at connect: the client has not sent a request yet."""
    now_ms: int

    @property
    def kind(self) -> str:
        """One of `reject`, `respond`, `throttle`, `hold` and `change`. A refusal of all or a part is a `reject`."""
        verdict = self._ends
        if isinstance(verdict, Reject) or self._denials:
            return "reject"
        if isinstance(verdict, Respond):
            return "respond"
        if isinstance(self.verdict, Throttle):
            return "throttle"
        return "hold" if isinstance(verdict, Hold) else "change"

    @property
    def operation(self) -> str:
        """The API's name, or `connect`."""
        return self.api_name or "connect"

    @property
    def closes(self) -> bool:
        """Whether it refuses and closes the connection, with or without a reply before."""
        verdict = self._ends
        return isinstance(verdict, Reject) and (not self.api_name or verdict.closes(self.api_name))

    @property
    def delay_ms(self) -> int:
        """How long the client would wait in ms: the throttle's time, the longest time of a hold, else 0."""
        verdict = self.verdict
        if isinstance(verdict, Throttle):
            return verdict.throttle_time_ms
        return verdict.max_delay_ms if isinstance(verdict, Hold) else 0

    @property
    def error(self) -> str:
        """Kafka's name of the error code of the refusal; empty if it does not refuse."""
        verdict = self._ends
        if isinstance(verdict, Reject):
            return error_name(verdict.code)
        codes = {code for denial in self._denials for code in denial.used_codes}
        return ", ".join(sorted(map(error_name, codes)))

    @property
    def message(self) -> str:
        """The policy's reason for the refusal; empty if it gives none."""
        verdict = self._ends
        if isinstance(verdict, Reject):
            return verdict.message
        return self._denials[0].message if self._denials else ""

    @property
    def _denials(self) -> tuple[Deny, ...]:
        ends = self._ends
        if isinstance(ends, Deny):
            return (ends,)
        return ends.denials if isinstance(ends, Forward) else ()

    @property
    def _ends(self) -> Verdict:
        ends = self.verdict.forward if isinstance(self.verdict, Throttle) else self.verdict
        return ends.refuses or ends if isinstance(ends, Respond) else ends


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, or `error code N` if Sluice does not know it."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error code {code}"


def refusal_message(policy: str, verdict: Reject) -> str:
    """Return the `error_message` that a client gets with a refusal."""
    return f"refused by policy {policy} of Sluice: {verdict.message or error_name(verdict.code)}"


def is_no_op(verdict: Verdict) -> bool:
    """Return whether this verdict changes neither the request nor the client's timing; an exemption changes neither."""
    if isinstance(verdict, Throttle):
        return not verdict.throttle_time_ms and is_no_op(verdict.forward)
    if not isinstance(verdict, Forward):
        return False
    return not verdict.patches and not verdict.denials and verdict.body is None
