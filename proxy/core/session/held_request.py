"""A request that a policy holds: parked before its first byte is forwarded, its client's channel muted.

Rules:
- It waits in the purgatory, watched by the key that its policy named. It ends exactly once: woken by that
  key, by its deadline, by a drain, or by its connection closing.
- Its received bytes stay where they are, counted: unread in the client's `carry`, or (if a policy needs its
  body) whole in `Link.gathered`.
- At the end of the wait the policy is asked again at once. Its verdict is applied in a later turn of the session,
  because the waking session may be inside a read. Another Hold begins another wait.
- A throttle that lasts then delays it too, whether the throttle began while its body arrived or during the wait. A
  drain does not wait for the throttle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import Hold, Outcome
from policies.chain import ChainPosition, PolicyFault
from policies.topics_question import TopicsQuestion
from proxy.core.errors import CloseReason
from proxy.core.purgatory.purgatory import DelayedOperation
from proxy.core.purgatory.watch_keys import held_key, text_of
from proxy.core.session import mutes
from proxy.core.session.buffered_request import hide, show_again
from proxy.core.session.channel import Mute
from proxy.core.session.exchange import NOT_DELAYED
from proxy.core.session.names_question import ask_existence
from proxy.core.session.naming_exchange import NamingExchange
from proxy.core.session.traces import add_stage
from proxy.core.stats.request_trace import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from policies.api import Verdict
    from policies.chain import Chain
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.link import Link


_DROPPED = dict.fromkeys(
    (CloseReason.CLIENT_CLOSED, CloseReason.CLIENT_RESET, CloseReason.CLIENT_TLS), "client_gone"
) | dict.fromkeys(
    (CloseReason.BROKER_CLOSED, CloseReason.BROKER_RESET, CloseReason.BROKER_TLS), "broker_gone"
)
"""How a wait ends that is dropped, by the reason for which its session ends; by any other reason it is `closed`."""


class HeldRequest(DelayedOperation):
    """One wait of one request. Made by `hold`."""

    __slots__ = (
        "_verdict",
        "exchange",
        "hung_up",
        "is_dropped",
        "move_first",
        "outcome",
        "owner",
        "since_us",
        "then",
        "throttled",
        "watched",
        "why",
    )

    def __init__(self, link: Link, exchange: ObservedExchange, verdict: Hold) -> None:
        super().__init__()
        self.owner = link
        self.exchange = exchange
        self.then = verdict.then
        self.since_us = link.shared.now_us
        self.watched = verdict.watch
        self.why = verdict.why
        self.throttled = link.usage if verdict.throttles else None  # whose time it takes
        self.hung_up = False  # its client has closed its side
        self.move_first: Callable[[HeldRequest], bool] | None = (
            None  # a reload has not moved it yet
        )
        self.outcome = "condition"  # how the wait ends, unless another cause sets it
        self.is_dropped = False
        self._verdict: Verdict | None = None  # instead of asking the policy again

    def try_complete(self, now_ms: int) -> bool:
        """Complete the wait, because its key was woken. Return False before the wait begins: it was judged just now."""
        return self.purgatory is not None and self.force_complete(now_ms)

    def fire(self, now_ms: int) -> None:
        """Complete the wait at its deadline, with the verdict that the policy set for this case (`Hold.then`)."""
        self._verdict = self.then
        self.outcome = "expired"
        self.force_complete(now_ms)

    def over(self, now_ms: int) -> None:
        """Complete the wait before its deadline, because the proxy drains; with `Hold.then`, as at the deadline."""
        self._verdict = self.then
        self.outcome = "drained"
        self.force_complete(now_ms)

    def move(self, chain: Chain, gone: Collection[str]) -> bool:
        """Put the request under another chain. Return whether the policy that holds it is in that chain."""
        exchange = self.exchange
        moved = chain.resume_position(
            exchange.plan.api.key, exchange.held or ChainPosition(), exchange.plan.hooks, gone
        )
        if moved is None:
            return True  # it stays under the chain that admitted it
        hooks, exchange.held, stays = moved
        exchange.plan = exchange.plan.under(hooks)
        return stays

    def drop(self, now_ms: int, reason: CloseReason) -> None:
        """Complete the wait without a verdict, because the session ends for this reason."""
        self.outcome = _DROPPED.get(reason, "closed")
        self.is_dropped = True
        self.force_complete(now_ms)

    def on_complete(self, now_ms: int) -> None:
        """Ask the policy again after the wait. A fault ends the session that waited, not the one that woke it."""
        try:
            self._complete(now_ms)
        except Exception as fault:  # noqa: BLE001 - any fault costs this session only
            link = self.owner
            link.complete(self.exchange, Outcome.DISCONNECTED, now_ms, forwarded=False)
            link.fail_and_ask_for_turn(fault)

    def _complete(self, now_ms: int) -> None:
        link, exchange = self.owner, self.exchange
        link.held = None
        if self.move_first is not None:
            self.move_first(self)
        self._account(now_ms)
        link.shared.reservations.uncount_held(link.claim)
        if self.is_dropped:
            link.complete(exchange, Outcome.DISCONNECTED, now_ms, forwarded=False)
            return
        judged: Verdict | PolicyFault
        frame = link.gathered
        if frame is not None:
            show_again(link.shared, exchange, frame)
        try:
            judged = link.calls.ask_again(exchange, self._verdict, now_ms)
        except PolicyFault as fault:
            judged = fault
        if isinstance(judged, Hold) or not isinstance(exchange, NamingExchange):
            hide(exchange)  # else its verdict may be about the names in it
        again = isinstance(judged, Hold) and judged.throttles
        if self.throttled is not None and not again and not isinstance(judged, PolicyFault):
            self.throttled.charge(exchange.size_bytes)
        if isinstance(judged, Hold):
            if judged.throttles and self.throttled is None:
                link.usage.defer(exchange.size_bytes)
            held = HeldRequest(link, exchange, judged)
            held.hung_up = self.hung_up
            _wait(held, judged, now_ms)
        else:
            link.resume_later(exchange, judged)
            mutes.unmute(link, Mute.HELD)

    def _account(self, now_ms: int) -> None:
        """Count the wait that is over, for the client or the request that it has delayed."""
        shared, exchange = self.owner.shared, self.exchange
        now_us = shared.now_us
        shared.completions[self.outcome] += 1
        kind = "purgatory"
        if self.throttled is not None:
            kind = "throttle"
            self.throttled.blocked.change(-1, now_ms)
            waited_ms = (now_us - self.since_us) // 1000
            if exchange.delay_ms == NOT_DELAYED:
                exchange.plan = exchange.plan.watched()  # so that its end is seen, which counts it
            mutes.count_delay(self.throttled, exchange, waited_ms)
        else:
            exchange.plan.meter.left(self.outcome, now_us - self.since_us)
        waited_for = "" if self.why else text_of(self.watched)
        waited = Stage(kind, self.since_us, now_us, waited_for, self.outcome)
        add_stage(shared, exchange, waited, self.why)
        exchange.wait_until(now_us)


def hold(link: Link, exchange: ObservedExchange, verdict: Hold, now_ms: int) -> None:
    """Park a request whose verdict is Hold, and mute its client after it."""
    held = HeldRequest(link, exchange, verdict)
    _wait(held, verdict, now_ms)
    if held.throttled is not None:
        held.throttled.defer(exchange.size_bytes)
    mutes.mute_after_request(link, Mute.HELD)


def _wait(held: HeldRequest, verdict: Hold, now_ms: int) -> None:
    link = held.owner
    link.held = held
    if held.throttled is not None:
        held.throttled.blocked.change(1, now_ms)
    link.shared.reservations.count_held(link.claim)
    holds = link.shared.holds
    key = held_key(verdict.watch, held)
    holds.try_complete_else_watch(held, (key,), now_ms + verdict.max_delay_ms, now_ms)
    if isinstance(verdict.watch, TopicsQuestion):
        ask_existence(link, verdict.watch)
