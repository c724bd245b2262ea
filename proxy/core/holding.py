"""A request that a policy holds: parked before its first byte goes on, its client's channel muted.

Rules:
- It ends exactly once: woken by its watch key, by its deadline, by a drain, or by its connection closing.
- What has come of it stays where it is, counted: unread in the client's `carry`, or (if its body had
  to be seen) whole in `request_gathered`.
- The policy that holds it is asked again at once; what it says is done in a turn of the session's own, for
  whoever wakes it may be in the middle of anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import Hold, Outcome
from policies.chain import PolicyFault
from proxy.core.channel import Mute

if TYPE_CHECKING:
    from policies.api import Verdict
    from proxy.core.ending import SessionEnd
    from proxy.core.exchanges import Exchange
    from proxy.core.timers import Timer


class HeldRequest:
    """See the module. Made by `hold`."""

    __slots__ = ("_timer", "_watch", "exchange", "hung_up", "session", "since_ms", "then")

    def __init__(self, session: SessionEnd, exchange: Exchange, now_ms: int) -> None:
        self.session = session
        self.exchange = exchange
        self.since_ms = now_ms
        self.hung_up = False  # its client has closed its side

    def watch(self, verdict: Hold, now_ms: int) -> None:
        """Wait for this key, until that deadline."""
        self.then = verdict.then
        self._watch = verdict.watch
        engine = self.session.engine
        engine.watch(verdict.watch, self)
        self._timer: Timer = engine.timers.arm(now_ms + verdict.max_delay_ms, self.over)

    def wake(self, now_ms: int) -> None:
        """The watch key has fired: the policy that holds it is asked again."""
        self._go_on(None, now_ms)

    def over(self, now_ms: int) -> None:
        """The deadline has come, or the proxy drains: what the policy left word of is done."""
        self.session.engine.unwatch(self._watch, self)
        self._go_on(self.then, now_ms)

    def drop(self, now_ms: int) -> None:
        """Its connection is gone."""
        session = self.session
        self._timer.cancel()
        session.engine.unwatch(self._watch, self)
        session.held = None
        session.complete(self.exchange, Outcome.DISCONNECTED, now_ms)

    def _go_on(self, verdict: Verdict | None, now_ms: int) -> None:
        self._timer.cancel()
        session = self.session
        judged: Verdict | PolicyFault
        try:
            judged = session.ask_again(self.exchange, verdict, now_ms)
        except PolicyFault as fault:
            judged = fault
        if isinstance(judged, Hold):
            self.watch(judged, now_ms)
            return
        session.held = None
        session.go_on(self.exchange, judged)


def hold(session: SessionEnd, exchange: Exchange, verdict: Hold, now_ms: int) -> None:
    """Park the request that has just been judged."""
    session.held = HeldRequest(session, exchange, now_ms)
    session.held.watch(verdict, now_ms)
    session.hush(Mute.HELD)
