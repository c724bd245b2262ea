"""A request that a policy holds: parked before its first byte goes on, its client's channel muted.

Rules:
- It waits in the purgatory, watched by the key that its policy named. It ends exactly once: woken by that
  key, by its deadline, by a drain, or by its connection closing.
- What has come of it stays where it is, counted: unread in the client's `carry`, or (if its body had
  to be seen) whole in `request_gathered`.
- The policy that holds it is asked again at once; what it says is done in a turn of the session's own, for
  whoever wakes it may be in the middle of anything. If it says Hold again, that is another wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import Hold, Outcome
from policies.chain import PolicyFault
from proxy.core.channel import Mute
from proxy.core.purgatory import DelayedOperation
from proxy.core.whole import body_of

if TYPE_CHECKING:
    from policies.api import Verdict
    from proxy.core.ending import SessionEnd
    from proxy.core.exchanges import Exchange


class HeldRequest(DelayedOperation):
    """One wait of one request. Made by `hold`."""

    __slots__ = ("_verdict", "dropped", "exchange", "hung_up", "session", "since_ms", "then")

    def __init__(
        self, session: SessionEnd, exchange: Exchange, verdict: Hold, since_ms: int
    ) -> None:
        super().__init__()
        self.session = session
        self.exchange = exchange
        self.then = verdict.then
        self.since_ms = since_ms
        self.hung_up = False  # its client has closed its side
        self.dropped = False  # its connection is gone
        self._verdict: Verdict | None = None  # instead of asking the policy again

    def try_complete(self, now_ms: int) -> bool:
        """Its key was woken. Before it is delayed it was judged just now, and nothing has happened since."""
        return self.purgatory is not None and self.force_complete(now_ms)

    def fire(self, now_ms: int) -> None:
        """The deadline has come: what the policy left word of is done."""
        self.over(now_ms)

    def over(self, now_ms: int) -> None:
        """The deadline has come, or the proxy drains."""
        self._verdict = self.then
        self.force_complete(now_ms)

    def drop(self, now_ms: int) -> None:
        """Its connection is gone."""
        self.dropped = True
        self.force_complete(now_ms)

    def on_complete(self, now_ms: int) -> None:
        """The wait is over."""
        session, exchange = self.session, self.exchange
        session.held = None
        session.engine.room.unpark(session)
        if self.dropped:
            session.complete(exchange, Outcome.DISCONNECTED, now_ms)
            return
        judged: Verdict | PolicyFault
        exchange.body = body_of(session, exchange)
        try:
            judged = session.ask_again(exchange, self._verdict, now_ms)
        except PolicyFault as fault:
            judged = fault
        exchange.body = None
        if isinstance(judged, Hold):
            held = HeldRequest(session, exchange, judged, self.since_ms)
            held.hung_up = self.hung_up
            _wait(held, judged, now_ms)
        else:
            session.go_on(exchange, judged)


def hold(session: SessionEnd, exchange: Exchange, verdict: Hold, now_ms: int) -> None:
    """Park the request that has just been judged."""
    _wait(HeldRequest(session, exchange, verdict, now_ms), verdict, now_ms)
    session.hush(Mute.HELD)


def _wait(held: HeldRequest, verdict: Hold, now_ms: int) -> None:
    held.session.held = held
    held.session.engine.room.park(held.session)
    holds = held.session.engine.holds
    holds.try_complete_else_watch(held, (verdict.watch,), now_ms + verdict.max_delay_ms, now_ms)
    holds.maybe_purge()
