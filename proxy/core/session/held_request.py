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
from policies.chain import ChainPosition, PolicyFault
from proxy.core.errors import CloseReason
from proxy.core.purgatory.purgatory import DelayedOperation
from proxy.core.purgatory.watch_keys import held_key, text_of
from proxy.core.session.buffered_request import body_of
from proxy.core.session.channel import Mute
from proxy.core.stats.request_trace import Stage

if TYPE_CHECKING:
    from collections.abc import Collection

    from policies.api import Verdict
    from policies.chain import Chain
    from proxy.core.session.ending import SessionEnd
    from proxy.core.session.exchange import Exchange


OUTCOMES = ("condition", "expired", "drained", "client_gone")
"""How a wait ends: by its key, at its deadline, because the proxy drains, because nobody is left."""


class HeldRequest(DelayedOperation):
    """One wait of one request. Made by `hold`."""

    __slots__ = (
        "_verdict",
        "exchange",
        "hung_up",
        "outcome",
        "session",
        "since_us",
        "then",
        "throttled",
        "watched",
        "why",
    )

    def __init__(self, session: SessionEnd, exchange: Exchange, verdict: Hold) -> None:
        super().__init__()
        self.session = session
        self.exchange = exchange
        self.then = verdict.then
        self.since_us = session.engine.now_us
        self.watched = verdict.watch
        self.why = verdict.why
        self.throttled = session.usage if verdict.throttles else None  # whose time it takes
        self.hung_up = False  # its client has closed its side
        self.outcome = "condition"  # how the wait ends, unless somebody says otherwise
        self._verdict: Verdict | None = None  # instead of asking the policy again

    def try_complete(self, now_ms: int) -> bool:
        """Its key was woken. Before it is delayed it was judged just now, and nothing has happened since."""
        return self.purgatory is not None and self.force_complete(now_ms)

    def fire(self, now_ms: int) -> None:
        """The deadline has come: what the policy left word of is done."""
        self._verdict = self.then
        self.outcome = "expired"
        self.force_complete(now_ms)

    def over(self, now_ms: int) -> None:
        """The proxy drains: the same, before its time."""
        self._verdict = self.then
        self.outcome = "drained"
        self.force_complete(now_ms)

    def move(self, chain: Chain, gone: Collection[str]) -> bool:
        """Another chain is asked from now on; whether whoever holds this is still there to say when it is over."""
        exchange = self.exchange
        moved = chain.resume_position(
            exchange.plan.api.key, exchange.held or ChainPosition(), exchange.plan.hooks, gone
        )
        if moved is None:
            return True  # it goes on under the chain that admitted it
        hooks, exchange.held, stays = moved
        exchange.plan = exchange.plan.under(hooks)
        return stays

    def drop(self, now_ms: int) -> None:
        """Its connection is gone."""
        self.outcome = "client_gone"
        self.force_complete(now_ms)

    def on_complete(self, now_ms: int) -> None:
        """The wait is over. A fault ends the session that waited, not whatever woke it."""
        try:
            self._complete(now_ms)
        except Exception as fault:  # noqa: BLE001 - whatever it is, it costs this session only
            session = self.session
            session.complete(self.exchange, Outcome.DISCONNECTED, now_ms, forwarded=False)
            session.fail(fault, CloseReason.INTERNAL)
            session.engine.attend(session)

    def _complete(self, now_ms: int) -> None:
        session, exchange = self.session, self.exchange
        session.held = None
        session.engine.moves.move(self)
        self._account(now_ms)
        session.engine.reservations.unpark(session)
        if self.outcome == "client_gone":
            session.complete(exchange, Outcome.DISCONNECTED, now_ms, forwarded=False)
            return
        judged: Verdict | PolicyFault
        exchange.body = body_of(session, exchange)
        try:
            judged = session.ask_again(exchange, self._verdict, now_ms)
        except PolicyFault as fault:
            judged = fault
        exchange.body = None
        again = isinstance(judged, Hold) and judged.throttles
        if self.throttled is not None and not again and not isinstance(judged, PolicyFault):
            self.throttled.charge(exchange.size_bytes)
        if isinstance(judged, Hold):
            if judged.throttles and self.throttled is None:
                session.usage.defer(exchange.size_bytes)
            held = HeldRequest(session, exchange, judged)
            held.hung_up = self.hung_up
            _wait(held, judged, now_ms)
        else:
            session.resume_held(exchange, judged)

    def _account(self, now_ms: int) -> None:
        """This wait is over: what it was counts for whom it has delayed."""
        session, exchange = self.session, self.exchange
        now_us = session.engine.now_us
        session.engine.completions[self.outcome] += 1
        kind = "purgatory"
        if self.throttled is not None:
            kind = "throttle"
            self.throttled.blocked.change(-1, now_ms)
            waited_ms = (now_us - self.since_us) // 1000
            self.throttled.throttle(waited_ms, first=not exchange.delayed)
            exchange.delayed = True
        else:
            exchange.plan.meter.left(self.outcome, now_us - self.since_us)
        waited_for = "" if self.why else text_of(self.watched)
        waited = Stage(kind, self.since_us, now_us, waited_for, self.outcome)
        session.stage(exchange, waited, self.why)
        exchange.wait_until(now_us)


def hold(session: SessionEnd, exchange: Exchange, verdict: Hold, now_ms: int) -> None:
    """Park the request that has just been judged."""
    held = HeldRequest(session, exchange, verdict)
    _wait(held, verdict, now_ms)
    if held.throttled is not None:
        held.throttled.defer(exchange.size_bytes)
    session.mute_after_request(Mute.HELD)


def _wait(held: HeldRequest, verdict: Hold, now_ms: int) -> None:
    held.session.held = held
    if held.throttled is not None:
        held.throttled.blocked.change(1, now_ms)
    held.session.engine.reservations.park(held.session)
    holds = held.session.engine.holds
    key = held_key(verdict.watch, held)
    holds.try_complete_else_watch(held, (key,), now_ms + verdict.max_delay_ms, now_ms)
    holds.maybe_purge()
