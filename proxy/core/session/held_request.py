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

from typing import TYPE_CHECKING, Protocol

from policies.api import Hold, Outcome
from policies.chain import ChainPosition, PolicyFault
from proxy.core.purgatory.purgatory import DelayedOperation
from proxy.core.purgatory.watch_keys import held_key, text_of
from proxy.core.session.buffered_request import body_of
from proxy.core.session.channel import Mute
from proxy.core.session.owner import Owner
from proxy.core.session.traces import add_stage
from proxy.core.stats.request_trace import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from policies.api import Verdict
    from policies.chain import Chain
    from proxy.core.session.exchange import ObservedExchange


class HoldOwner(Owner, Protocol):
    """What a held request asks of its session besides."""

    @property
    def gathered(self) -> bytearray | None: ...
    def on_hold_begun(self, held: HeldRequest) -> None: ...
    def on_hold_over(self) -> None: ...
    def resume_held(self, exchange: ObservedExchange, judged: Verdict | PolicyFault) -> None: ...


class HeldRequest(DelayedOperation):
    """One wait of one request. Made by `hold`."""

    __slots__ = (
        "_verdict",
        "exchange",
        "hung_up",
        "move_first",
        "outcome",
        "owner",
        "since_us",
        "then",
        "throttled",
        "watched",
        "why",
    )

    def __init__(self, owner: HoldOwner, exchange: ObservedExchange, verdict: Hold) -> None:
        super().__init__()
        self.owner = owner
        self.exchange = exchange
        self.then = verdict.then
        self.since_us = owner.shared.now_us
        self.watched = verdict.watch
        self.why = verdict.why
        self.throttled = owner.usage if verdict.throttles else None  # whose time it takes
        self.hung_up = False  # its client has closed its side
        self.move_first: Callable[[HeldRequest], bool] | None = (
            None  # a reload has not moved it yet
        )
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
            owner = self.owner
            owner.complete(self.exchange, Outcome.DISCONNECTED, now_ms, forwarded=False)
            owner.fail_and_attend(fault)

    def _complete(self, now_ms: int) -> None:
        owner, exchange = self.owner, self.exchange
        owner.on_hold_over()
        if self.move_first is not None:
            self.move_first(self)
        self._account(now_ms)
        owner.shared.reservations.unpark(owner.claim)
        if self.outcome == "client_gone":
            owner.complete(exchange, Outcome.DISCONNECTED, now_ms, forwarded=False)
            return
        judged: Verdict | PolicyFault
        frame = owner.gathered
        exchange.body = None if frame is None else body_of(exchange, frame)
        try:
            judged = owner.calls.ask_again(exchange, self._verdict, now_ms)
        except PolicyFault as fault:
            judged = fault
        exchange.body = None
        again = isinstance(judged, Hold) and judged.throttles
        if self.throttled is not None and not again and not isinstance(judged, PolicyFault):
            self.throttled.charge(exchange.size_bytes)
        if isinstance(judged, Hold):
            if judged.throttles and self.throttled is None:
                owner.usage.defer(exchange.size_bytes)
            held = HeldRequest(owner, exchange, judged)
            held.hung_up = self.hung_up
            _wait(held, judged, now_ms)
        else:
            owner.resume_held(exchange, judged)

    def _account(self, now_ms: int) -> None:
        """This wait is over: what it was counts for the one that it has delayed."""
        shared, exchange = self.owner.shared, self.exchange
        now_us = shared.now_us
        shared.completions[self.outcome] += 1
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
        add_stage(shared, exchange, waited, self.why)
        exchange.wait_until(now_us)


def hold(owner: HoldOwner, exchange: ObservedExchange, verdict: Hold, now_ms: int) -> None:
    """Park the request that has just been judged."""
    held = HeldRequest(owner, exchange, verdict)
    _wait(held, verdict, now_ms)
    if held.throttled is not None:
        held.throttled.defer(exchange.size_bytes)
    owner.mute_after_request(Mute.HELD)


def _wait(held: HeldRequest, verdict: Hold, now_ms: int) -> None:
    owner = held.owner
    owner.on_hold_begun(held)
    if held.throttled is not None:
        held.throttled.blocked.change(1, now_ms)
    owner.shared.reservations.park(owner.claim)
    holds = owner.shared.holds
    key = held_key(verdict.watch, held)
    holds.try_complete_else_watch(held, (key,), now_ms + verdict.max_delay_ms, now_ms)
    holds.maybe_purge()
