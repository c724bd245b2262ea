"""One request and its reply: the unit of order, accounting and records.

Rules:
- Replies leave in request order on every connection, whoever made them: a session's queue holds its
  exchanges oldest first, and only the head may be answered.
- An Exchange is made per request, so it is bare: its maker sets the slots, and only those that the
  plan's hooks will look at. It is the `Request` that policies see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wire import throttle
from wire.errors import WireError
from wire.primitives import INT32

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Response
    from policies.chain import ChainPosition
    from proxy.core.session.plan import Plan
    from proxy.core.stats.capture import Seen
    from proxy.core.stats.request_trace import RequestTrace
    from wire.apis import Api
    from wire.fetch import FetchHead
    from wire.produce import ProduceWalker


class Exchange:
    """A client's request on its way. Always set: plan, correlation_id, arrived_us, size_bytes.

    The others are set only for requests that a policy wants to see, or that are told about: under a `simple`
    plan they are not there. `arrived_us` is when its last byte went
    on, if it took longer than one read; `arrived_ms` what its deadline counts from. `throttle_until_ms` is when the
    client may speak again, as the reply will say. `kept` is set for tracked produces: what a reply
    made here would have to say (see `proxy.core.session.broker_waits`). `trail` is of those that are told about.
    """

    __slots__ = (
        "_began_us",
        "_deadline_from_ms",
        "arrived_us",
        "asked",
        "body",
        "correlation_id",
        "delayed",
        "exchange_id",
        "head",
        "held",
        "kept",
        "plan",
        "seen",
        "size_bytes",
        "throttle_until_ms",
        "trail",
    )

    plan: Plan
    correlation_id: int
    arrived_us: int
    size_bytes: int
    exchange_id: int
    asked: int
    head: ProduceWalker | FetchHead | None
    body: bytes | None
    held: ChainPosition | None
    kept: bytearray | bytes | ProduceWalker | None
    delayed: bool
    throttle_until_ms: int
    seen: Seen | None
    trail: RequestTrace | None

    @property
    def began_us(self) -> int:
        """When its first byte was here."""
        try:
            return self._began_us
        except AttributeError:
            return self.arrived_us

    def wait_until(self, now_us: int) -> None:
        """It has waited until now: what is measured from now on is the next one's time."""
        self._began_us: int = self.began_us
        self.arrived_us = now_us

    @property
    def arrived_ms(self) -> int:
        """What its deadline counts from."""
        try:
            return self._deadline_from_ms
        except AttributeError:
            return self.arrived_us // 1000

    @arrived_ms.setter
    def arrived_ms(self, at_ms: int) -> None:
        self._deadline_from_ms: int = at_ms

    @property
    def api(self) -> Api:
        """The table's facts."""
        return self.plan.api

    @property
    def api_key(self) -> int:
        """Kafka's number of the API."""
        return self.plan.api.key

    @property
    def api_version(self) -> int:
        """The version the client chose."""
        return self.plan.api.version

    @property
    def node_id(self) -> int | None:
        """The broker it is for; None on the bootstrap port."""
        return self.plan.peer.node_id

    @property
    def acks(self) -> int | None:
        """Produce only."""
        return self.plan.acks


class AnsweredExchange:
    """An exchange whose reply was made here and waits for its turn. `reply` is a whole frame."""

    __slots__ = ("exchange", "reply")

    def __init__(self, exchange: Exchange, reply: bytes | bytearray) -> None:
        self.exchange = exchange
        self.reply = reply


class SwallowedExchange:
    """One that was answered here because the broker was too slow; its late reply goes nowhere."""

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
        self.arrived_ms = 0  # when it went out


class InsertedRequest(NamedTuple):
    """A request of our own that waits for a frame boundary."""

    frame: bytes
    exchange: ProxyExchange


class Reply:
    """The broker's reply (or one made here) as policies see it: a frame of which `end - pos` bytes are here."""

    __slots__ = ("_api", "_buf", "_end", "_pos", "size_bytes")

    def __init__(self, api: Api, size_bytes: int, buf: bytearray, pos: int, end: int) -> None:
        self.size_bytes = size_bytes
        self._api = api
        self._buf = buf
        self._pos = pos
        self._end = end

    @property
    def throttle_time_ms(self) -> int:
        """What is written in it; 0 where there is no such field, or it cannot be found."""
        try:
            at = throttle.throttle_at(self._buf, self._pos, self._end, self._api)
        except WireError:
            return 0
        return 0 if at is None else int(INT32.unpack_from(self._buf, at)[0])


if TYPE_CHECKING:

    def _(reply: Reply) -> Response:
        return reply
