"""What an entry has decided about a request, or would have: for those who look on.

A PolicyDecision is made where something is refused, or would be in mode `observe`; an ordinary request has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.api import Forward, Hold, Reject, Respond, Throttle
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from policies.api import Peer, Verdict


class PolicyDecision(NamedTuple):
    """Which entry, about whose request, what and when."""

    policy: str
    """The entry's name in the config."""
    verdict: Verdict
    peer: Peer
    api_name: str
    """Empty: the client has connected, and asked for nothing yet."""
    now_ms: int

    @property
    def kind(self) -> str:
        """One of `reject`, `respond`, `throttle`, `hold` and `change`. What refuses in any way is a `reject`."""
        verdict = self._ends
        if isinstance(verdict, Reject):
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
        return isinstance(verdict, Reject) and (verdict.close or not self.api_name)

    @property
    def delay_ms(self) -> int:
        """How long the client would wait: a throttle's time, the longest a hold may take, else 0."""
        verdict = self.verdict
        if isinstance(verdict, Throttle):
            return verdict.throttle_time_ms
        return verdict.max_delay_ms if isinstance(verdict, Hold) else 0

    @property
    def error(self) -> str:
        """Kafka's name of the error code that it refuses with; empty if it does not refuse."""
        verdict = self._ends
        return error_name(verdict.code) if isinstance(verdict, Reject) else ""

    @property
    def message(self) -> str:
        """Why it refuses, in the policy's words; empty if it does not say."""
        verdict = self._ends
        return verdict.message if isinstance(verdict, Reject) else ""

    @property
    def _ends(self) -> Verdict:
        ends = self.verdict.forward if isinstance(self.verdict, Throttle) else self.verdict
        return ends.refuses or ends if isinstance(ends, Respond) else ends


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, or the number in words if Sluice does not know it."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error code {code}"


def refusal_message(policy: str, verdict: Reject) -> str:
    """Return what a client is told of its refusal, as `error_message`."""
    return f"refused by policy {policy} of Sluice: {verdict.message or error_name(verdict.code)}"


def is_no_op(verdict: Verdict) -> bool:
    """Whether this verdict leaves the request as it is and its client alone; to exempt it is nothing, too."""
    if isinstance(verdict, Throttle):
        return not verdict.throttle_time_ms and is_no_op(verdict.forward)
    return isinstance(verdict, Forward) and not verdict.patches and verdict.body is None
