"""The connections that have sent no request yet, or are not authenticated where that is required.

Rules:
- A connection is here from its accept until its first valid request; if clients authenticate to Sluice, until that
  has succeeded. One that authenticates to the brokers is here again from its first SaslHandshake until the outcome.
- Each has a deadline, on a timer that is gone with its entry: a connection at work has none.
- A broker is dialled after the first request, so the time of the dial does not count against the client.
- If no place is left for a new connection, the oldest of these yields its own (`oldest`). All others keep theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.core.errors import CloseReason
from proxy.core.purgatory.timing_wheel import NOWHERE, TimerEntry

if TYPE_CHECKING:
    from proxy.core.connection_limits import ConnectionCounts
    from proxy.core.purgatory.timers import Timers


class Side(Protocol):
    """A channel. `muted`: it is not read from."""

    muted: int


class Newcomer(Protocol):
    """A session. `handle` is None until the event loop has it."""

    handle: object

    @property
    def client(self) -> Side: ...
    def end(self, reason: CloseReason, detail: str, now_ms: int) -> None: ...
    def end_and_ask_for_turn(self, reason: CloseReason, detail: str, now_ms: int) -> None: ...


class _Deadline(TimerEntry):
    """The deadline of one newcomer, which is here since `since_ms`. `is_silent`: it has sent no request."""

    __slots__ = ("_newcomers", "is_silent", "owner", "since_ms")

    def __init__(
        self, newcomers: Newcomers, owner: Newcomer, since_ms: int, *, is_silent: bool
    ) -> None:
        self.at_ms, self.bucket = since_ms, NOWHERE  # as in TimerEntry
        self._newcomers = newcomers
        self.owner = owner
        self.since_ms = since_ms
        self.is_silent = is_silent

    def fire(self, now_ms: int) -> None:
        """See TimerEntry."""
        self._newcomers.on_due(self, now_ms)


class Newcomers:
    """The newcomers of a process, oldest first. `authenticates`: clients must authenticate to Sluice."""

    __slots__ = ("_counts", "_deadlines", "_timers", "authenticates")

    def __init__(self, timers: Timers, counts: ConnectionCounts) -> None:
        self.authenticates = False
        self._counts = counts
        self._timers = timers
        self._deadlines: dict[Newcomer, _Deadline] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._deadlines)

    def __contains__(self, owner: object) -> bool:
        """Return whether this session is one of them."""
        return owner in self._deadlines

    def oldest(self, since_ms: int) -> Newcomer | None:
        """Return the oldest newcomer, if it is here since `since_ms` or longer."""
        for owner, deadline in self._deadlines.items():
            return owner if deadline.since_ms <= since_ms else None
        return None

    # -- how one comes and goes ------------------------------------------------------------------

    def add(self, owner: Newcomer, now_ms: int) -> None:
        """Begin to wait for the first request of a connection."""
        self._set_deadline(owner, now_ms, now_ms, is_silent=True)

    def on_request(self, owner: Newcomer, now_ms: int) -> None:
        """Note a valid request of a connection, which may be a newcomer no longer."""
        deadline = self._deadlines.get(owner)
        if deadline is None or not deadline.is_silent:
            return
        if self.authenticates:
            deadline.cancel()
            self._set_deadline(owner, deadline.since_ms, now_ms, is_silent=False)
        else:
            self.discard(owner)

    def on_sasl_begun(self, owner: Newcomer, now_ms: int) -> None:
        """Begin to wait for the outcome of a client's first authentication to the brokers."""
        if not self.authenticates:
            self.discard(owner)
            self._set_deadline(owner, now_ms, now_ms, is_silent=False)

    def discard(self, owner: Newcomer) -> None:
        """Wait no longer for this session, because it is authenticated, or has ended."""
        deadline = self._deadlines.pop(owner, None)
        if deadline is not None:
            deadline.cancel()

    # -- deadlines -------------------------------------------------------------------------------

    def _set_deadline(
        self, owner: Newcomer, since_ms: int, now_ms: int, *, is_silent: bool
    ) -> None:
        deadline = self._deadlines[owner] = _Deadline(self, owner, since_ms, is_silent=is_silent)
        timeout_ms = self._timeout_ms(deadline)
        if timeout_ms:
            deadline.at_ms = max(since_ms + timeout_ms, now_ms + 1)
            self._timers.add(deadline)

    def _timeout_ms(self, deadline: _Deadline) -> int:
        limits = self._counts.limits
        return (
            limits.first_request_timeout_ms
            if deadline.is_silent
            else limits.authentication_timeout_ms
        )

    def on_due(self, deadline: _Deadline, now_ms: int) -> None:
        """End a newcomer, because its deadline has come."""
        owner = deadline.owner
        if deadline.is_silent and (owner.handle is None or owner.client.muted):
            # It was not read yet, or waits for memory: it has the whole time again.
            deadline.at_ms = now_ms + max(self._timeout_ms(deadline), 1)
            self._timers.add(deadline)
            return
        self.discard(owner)
        lasted = f"within {now_ms - deadline.since_ms} ms"
        if deadline.is_silent:
            reason, detail = CloseReason.FIRST_REQUEST_TIMEOUT, f"no request {lasted}"
        else:
            reason, detail = CloseReason.AUTHENTICATION_TIMEOUT, f"not authenticated {lasted}"
        owner.end_and_ask_for_turn(reason, detail, now_ms)
