"""Every request and whatever the policies were asked about it: for an exact replay, while a capture is open.

Rules:
- Each asking has a number from one counter (`event`), so the rows, sorted, are the policies' whole history: which
  request, which `now_ms`, how large, what they said.
- A Seen is handed on when its request has ended. `number` counts requests in the order they were asked about.
- While it is open nothing takes the fast loop (`Plan`): a capture is for minutes, not for always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from policies.api import Forward, Throttle

if TYPE_CHECKING:
    from policies.api import Outcome, Peer, Response, Verdict
    from wire.apis import Api

MAX_ENDED = 200_000
"""Ended requests that may wait to be taken; more are dropped, and counted."""


class CapturedPlan(Protocol):
    """What requests of one kind have in common (`proxy.core.session.plan`)."""

    @property
    def peer(self) -> Peer: ...
    @property
    def api(self) -> Api: ...
    @property
    def acks(self) -> int | None: ...
    @property
    def spared(self) -> bool: ...


class CapturedExchange(Protocol):
    """A request as a capture sees it."""

    @property
    def plan(self) -> CapturedPlan: ...
    @property
    def exchange_id(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...

    seen: Seen | None


class Seen:
    """One request. Times in the engine's ms; 0 and None where it never came to that."""

    __slots__ = (
        "_capture",
        "asked_ms",
        "delay_ms",
        "ended_ms",
        "event",
        "exchange",
        "number",
        "outcome",
        "released",
        "replied_event",
        "replied_ms",
        "reply_bytes",
        "reply_delay_ms",
        "reply_throttle_time_ms",
        "spared",
        "verdict",
    )

    exchange: CapturedExchange
    outcome: Outcome
    ended_ms: int

    def __init__(self, capture: Capture, number: int, now_ms: int, *, spared: bool) -> None:
        self._capture = capture
        self.number = number
        self.event = capture.next_event()
        self.asked_ms = now_ms
        self.spared = spared  # no quota counts it
        self.verdict = "none"  # nobody asked about it
        self.delay_ms = 0  # what the last verdict on the request throttles
        self.released: list[tuple[int, int]] | None = None  # event and now_ms of each asking again
        self.replied_event = 0  # when the policies heard of its reply
        self.replied_ms = 0
        self.reply_bytes = 0
        self.reply_delay_ms = 0  # what the verdict on the reply throttles
        self.reply_throttle_time_ms = 0  # what the broker wrote

    def judged(self, verdict: Verdict) -> None:
        """A policy has spoken about the request."""
        self.verdict = "exempt" if _exempts(verdict) else type(verdict).__name__.lower()
        self.delay_ms = 0
        if isinstance(verdict, Throttle):
            self.delay_ms = verdict.throttle_time_ms
            verdict = verdict.forward
        self.spared = self.spared or _exempts(verdict)

    def judged_again(self, verdict: Verdict, now_ms: int) -> None:
        """It was held, and is asked about again."""
        self.released = [*(self.released or ()), (self._capture.next_event(), now_ms)]
        self.judged(verdict)

    def heard(self, response: Response, verdict: object, now_ms: int) -> None:
        """The policies have heard of its reply."""
        self.replied_event = self._capture.next_event()
        self.replied_ms = now_ms
        self.reply_throttle_time_ms = response.throttle_time_ms
        if isinstance(verdict, Throttle):
            self.reply_delay_ms = verdict.throttle_time_ms


class Capture:
    """See the module. `open` until somebody ends it; those in flight then are still handed on."""

    __slots__ = ("_ended", "_events", "_numbers", "dropped", "open")

    def __init__(self) -> None:
        self.open = True
        self.dropped = 0
        self._ended: list[Seen] = []
        self._events = 0
        self._numbers = 0

    def next_event(self) -> int:
        """The number of one asking."""
        self._events += 1
        return self._events

    def ask(self, exchange: CapturedExchange, now_ms: int) -> None:
        """The policies are asked about it now."""
        if not self.open:
            return
        plan = exchange.plan
        spared = plan.spared
        self._numbers += 1
        exchange.seen = Seen(self, self._numbers, now_ms, spared=spared)

    def end(self, exchange: CapturedExchange, outcome: Outcome, now_ms: int) -> None:
        """It has ended."""
        seen, exchange.seen = exchange.seen, None
        if seen is None:
            return
        if len(self._ended) >= MAX_ENDED:
            self.dropped += 1
            return
        seen.exchange = exchange
        seen.outcome = outcome
        seen.ended_ms = now_ms
        self._ended.append(seen)

    def take(self) -> list[Seen]:
        """Those that have ended since the last take."""
        ended, self._ended = self._ended, []
        return ended


def _exempts(verdict: Verdict) -> bool:
    return isinstance(verdict, Forward) and verdict.exempt
