"""Records every request and each policy call about it for an exact replay, while a capture is open.

Rules:
- Each policy call gets a number from one counter (`event`). So the rows, sorted by it, are the complete history of the
  policies: the request, `now_ms`, the size and the verdict of each call.
- A Seen is recorded when its request has ended. `number` counts requests in the order of their first policy call.
- While a capture is open no request takes the fast loop (`Plan`), so a capture should last minutes at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from policies.api import Forward, Throttle

if TYPE_CHECKING:
    from policies.api import Outcome, Peer, Response, Verdict
    from wire.apis import Api

MAX_ENDED = 200_000
"""How many ended requests may wait for `take`; more are dropped and counted in `dropped`."""


class CapturedPlan(Protocol):
    """The common properties of requests of one kind (`proxy.core.session.plan`)."""

    @property
    def peer(self) -> Peer: ...
    @property
    def api(self) -> Api: ...
    @property
    def acks(self) -> int | None: ...
    @property
    def is_sign_on(self) -> bool: ...


class CapturedExchange(Protocol):
    """The part of a request and its reply that a capture reads."""

    @property
    def plan(self) -> CapturedPlan: ...
    @property
    def exchange_id(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...

    seen: Seen | None


class Seen:
    """The record of one request. Times are the engine's, in ms; 0 or None for steps that did not happen."""

    __slots__ = (
        "_capture",
        "asked_ms",
        "delay_ms",
        "ended_ms",
        "event",
        "exchange",
        "is_exempt",
        "number",
        "outcome",
        "released",
        "replied_event",
        "replied_ms",
        "reply_bytes",
        "reply_delay_ms",
        "reply_throttle_time_ms",
        "verdict",
    )

    exchange: CapturedExchange
    outcome: Outcome
    ended_ms: int

    def __init__(self, capture: Capture, number: int, now_ms: int, *, is_exempt: bool) -> None:
        self._capture = capture
        self.number = number
        self.event = capture.next_event()
        self.asked_ms = now_ms
        self.is_exempt = is_exempt  # no quota counts it
        self.verdict = "none"  # no policy was called
        self.delay_ms = 0  # the throttle time of the last verdict on the request
        self.released: list[tuple[int, int]] | None = None  # event and now_ms of each later call
        self.replied_event = 0  # when the policies saw its reply
        self.replied_ms = 0
        self.reply_bytes = 0
        self.reply_delay_ms = 0  # the throttle time of the verdict on the reply
        self.reply_throttle_time_ms = 0  # the broker's own throttle time

    def judged(self, verdict: Verdict) -> None:
        """Record the policies' verdict on the request."""
        self.verdict = "exempt" if _exempts(verdict) else type(verdict).__name__.lower()
        self.delay_ms = 0
        if isinstance(verdict, Throttle):
            self.delay_ms = verdict.throttle_time_ms
            verdict = verdict.forward
        self.is_exempt = self.is_exempt or _exempts(verdict)

    def judged_again(self, verdict: Verdict, now_ms: int) -> None:
        """Record the verdict on a held request that the policies evaluated again."""
        self.released = [*(self.released or ()), (self._capture.next_event(), now_ms)]
        self.judged(verdict)

    def on_response(self, response: Response, verdict: object, now_ms: int) -> None:
        """Record the policies' verdict on the reply."""
        self.replied_event = self._capture.next_event()
        self.replied_ms = now_ms
        self.reply_throttle_time_ms = response.throttle_time_ms
        if isinstance(verdict, Throttle):
            self.reply_delay_ms = verdict.throttle_time_ms


class Capture:
    """Records requests while it is `open`; those in flight when it is closed are still recorded."""

    __slots__ = ("_ended", "_events", "_numbers", "dropped", "open")

    def __init__(self) -> None:
        self.open = True
        self.dropped = 0
        self._ended: list[Seen] = []
        self._events = 0
        self._numbers = 0

    def next_event(self) -> int:
        """Return the number of the next policy call."""
        self._events += 1
        return self._events

    def ask(self, exchange: CapturedExchange, now_ms: int) -> None:
        """Begin the record of a request, because the policies are called about it now."""
        if not self.open:
            return
        plan = exchange.plan
        is_exempt = plan.is_sign_on
        self._numbers += 1
        exchange.seen = Seen(self, self._numbers, now_ms, is_exempt=is_exempt)

    def end(self, exchange: CapturedExchange, outcome: Outcome, now_ms: int) -> None:
        """Complete the record of a request that has ended, if it has one."""
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
        """Return the records of requests that have ended since the last call."""
        ended, self._ended = self._ended, []
        return ended


def _exempts(verdict: Verdict) -> bool:
    return isinstance(verdict, Forward) and verdict.exempt
