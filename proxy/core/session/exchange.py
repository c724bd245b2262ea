"""One request and its reply: the unit of order, accounting and records.

Rules:
- Replies leave in request order on every connection, the broker's and those made here: a session's queue holds its
  exchanges oldest first, and only the head may be answered.
- An Exchange is made per request, so it is small. A request that a policy, a trace or the capture looks at has an
  ObservedExchange.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from policies.chain import ASKED_ALL
from policies.requests import BodyReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Peer, Verdict
    from policies.audit_facts import AuditFacts
    from policies.chain import ChainPosition, PolicyFault
    from policies.responses import Result
    from proxy.core.session.plan import Plan
    from proxy.core.stats.capture import Seen
    from proxy.core.stats.request_trace import RequestTrace
    from wire.apis import Api
    from wire.fetch import FetchHead, ShareFetchHead
    from wire.produce import ProduceWalker
    from wire.request_names import RequestNames


SESSION_SHIFT = 40
"""A session has fewer requests than 2^40: at a million per second, they take twelve days. See `ObservedExchange.id`."""
MAX_PROXY_REPLY_BYTES = 1 << 20
"""The largest reply to a question of our own."""
NOT_DELAYED: Final = -1
"""The `delay_ms` of a request that no quota has delayed."""


class Exchange:
    """A request on its way that no policy (but a gate), trace or capture looks at: what the fast loop makes, with every
    slot set.

    `arrived_us`: when its first byte arrived, in the engine's microseconds. `kept` is set under a plan that `keeps`:
    the topics and partitions of a reply made here (see `proxy.core.session.kept_produce`). The attributes that only an
    ObservedExchange has are empty here.
    """

    __slots__ = ("arrived_us", "correlation_id", "kept", "plan", "size_bytes")

    plan: Plan
    correlation_id: int
    arrived_us: int
    size_bytes: int
    kept: bytearray | bytes | ProduceWalker | None

    throttle_until_ms = 0
    seen: Seen | None = None
    trace: RequestTrace | None = None

    @property
    def began_us(self) -> int:
        """Return when the first byte of the request arrived, in the engine's microseconds."""
        return self.arrived_us

    @property
    def arrived_ms(self) -> int:
        """Return the time from which the deadline counts, in the engine's milliseconds."""
        return self.arrived_us // 1000

    @property
    def api(self) -> Api:
        """Return the table's facts of its API and version."""
        return self.plan.api


class ObservedExchange(Exchange, BodyReader):
    """A request on its way that is looked at: the `Request` that policies see.

    `arrived_us` is when its last byte was forwarded, if it took longer than one read; `began_us` when its first byte
    arrived; `arrived_ms` the time from which its deadline counts. `throttle_until_ms` is when the client may send
    again; the reply says so. `delay_ms`: by how long quotas have delayed its client because of it, before it was
    forwarded and after; its reply is looked at from then on, so that `PolicyCalls` counts the sum.
    """

    __slots__ = (
        "arrived_ms",
        "asked_up_to",
        "began_us",
        "body",
        "decoded",
        "delay_ms",
        "exchange_id",
        "head",
        "held",
        "result",
        "seen",
        "throttle_until_ms",
        "trace",
    )

    exchange_id: int
    asked_up_to: int
    head: ProduceWalker | FetchHead | ShareFetchHead | None
    body: bytes | None
    held: ChainPosition | None
    result: Result | None
    """Its refusals so far, and its reply if a policy hears the body, for `on_complete`."""
    delay_ms: int
    throttle_until_ms: int
    seen: Seen | None
    trace: RequestTrace | None
    began_us: int
    arrived_ms: int

    names: RequestNames | None = None  # a NamingExchange has them

    def __init__(
        self, plan: Plan, correlation_id: int, size_bytes: int, arrived_us: int, exchange_id: int
    ) -> None:
        self.plan = plan
        self.correlation_id = correlation_id
        self.arrived_us = self.began_us = arrived_us
        self.arrived_ms = arrived_us // 1000
        self.size_bytes = size_bytes
        self.exchange_id = exchange_id
        self.asked_up_to = ASKED_ALL
        self.head = self.body = self.held = self.kept = self.seen = self.trace = None
        self.result = None
        self.delay_ms = NOT_DELAYED
        self.throttle_until_ms = 0

    def tell_audit(self, facts: AuditFacts) -> None:
        """Add these facts to the request's line in the audit log, if it gets one."""
        if self.trace is not None:
            self.trace.facts = facts

    def wait_until(self, now_us: int) -> None:
        """Restart the time measurement at `now_us`, because a wait here ends then."""
        self.arrived_us = now_us

    @property
    def id(self) -> int:
        """Return a number that is unique in this process."""
        return self.plan.peer.session_id << SESSION_SHIFT | self.exchange_id

    @property
    def peer(self) -> Peer:
        """Return the client, as it was known when the request began."""
        return self.plan.peer

    @property
    def began_ms(self) -> int:
        """Return when the first byte of the request arrived, in ms since the epoch."""
        return self.began_us // 1000

    @property
    def api_key(self) -> int:
        """Return Kafka's number of the API."""
        return self.plan.api.key

    @property
    def api_version(self) -> int:
        """Return the version that the client chose."""
        return self.plan.api.version

    @property
    def node_id(self) -> int | None:
        """Return the broker it is for; None on the bootstrap port."""
        return self.plan.peer.node_id

    @property
    def acks(self) -> int | None:
        """Return the acks of a Produce; None for any other API."""
        return self.plan.acks


_new_observed: Final = ObservedExchange.__new__
"""Found once, because the look-up on a class costs as much as the call."""


def new_observed(
    kind: type[ObservedExchange],
    plan: Plan,
    correlation_id: int,
    size_bytes: int,
    arrived_us: int,
    arrived_ms: int,
    exchange_id: int,
) -> ObservedExchange:
    """Return what `kind(...)` returns. It sets the slots itself, because a constructor is too slow on the fast path."""
    exchange: ObservedExchange = _new_observed(kind)
    exchange.plan = plan
    exchange.correlation_id = correlation_id
    exchange.arrived_us = exchange.began_us = arrived_us
    exchange.arrived_ms = arrived_ms
    exchange.size_bytes = size_bytes
    exchange.exchange_id = exchange_id
    exchange.asked_up_to = ASKED_ALL
    exchange.body = exchange.head = exchange.held = exchange.kept = None
    exchange.result = exchange.seen = exchange.trace = None
    exchange.delay_ms = NOT_DELAYED
    exchange.throttle_until_ms = 0
    return exchange


def observed(exchange: Exchange, exchange_id: int = 0) -> ObservedExchange:
    """Return `exchange` itself if it is an ObservedExchange, else an ObservedExchange that replaces it."""
    if isinstance(exchange, ObservedExchange):
        return exchange
    full = ObservedExchange(
        exchange.plan,
        exchange.correlation_id,
        exchange.size_bytes,
        exchange.arrived_us,
        exchange_id,
    )
    if exchange.plan.keeps_partitions:
        full.kept = exchange.kept
    return full


class AnsweredExchange:
    """An exchange whose reply was made here and waits for its turn. `reply` is a whole frame."""

    __slots__ = ("exchange", "reply")

    def __init__(self, exchange: Exchange, reply: bytes | bytearray) -> None:
        self.exchange = exchange
        self.reply = reply


class SwallowedExchange:
    """An exchange that was answered here because the broker was too slow; the broker's late reply is discarded."""

    __slots__ = ("arrived_ms", "correlation_id")

    def __init__(self, correlation_id: int, arrived_ms: int) -> None:
        self.correlation_id = correlation_id
        self.arrived_ms = arrived_ms


class ProxyExchange:
    """A question of our own on the upstream connection; its reply never reaches the client.

    `on_reply` gets the whole reply frame, or None when the connection ended first.
    """

    __slots__ = ("arrived_ms", "correlation_id", "on_reply")

    def __init__(self, correlation_id: int, on_reply: Callable[[bytes | None], None]) -> None:
        self.correlation_id = correlation_id
        self.on_reply = on_reply
        self.arrived_ms = 0  # when it was sent


class InsertedRequest(NamedTuple):
    """A request of our own that waits for a frame boundary."""

    frame: bytes
    exchange: ProxyExchange


class Pending(NamedTuple):
    """A request that has not begun, and its verdict, which is applied when its bytes are handled; None before
    the policies are asked; or the fault of the policy that held it (which is already reported).
    """

    exchange: ObservedExchange
    verdict: Verdict | PolicyFault | None
