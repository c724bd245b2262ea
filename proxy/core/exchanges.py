"""One request and its reply: the unit of order, accounting and records.

Rules:
- Replies leave in request order on every connection, whoever made them: a session's queue holds its
  exchanges oldest first, and only the head may be answered.
- An Exchange is made per request, so it is bare: its maker sets the slots, and only those that the
  plan's hooks will look at. It is the `Request` that policies see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Response
    from proxy.core.plan import Plan
    from wire.apis import Api
    from wire.fetch import FetchHead
    from wire.produce import ProduceWalker


class Exchange:
    """A client's request on its way. Always set: plan, correlation_id, arrived_ms, size_bytes.

    `exchange_id`, `asked`, `head` and `body` are set only for requests that a policy wants to see.
    """

    __slots__ = (
        "arrived_ms",
        "asked",
        "body",
        "correlation_id",
        "exchange_id",
        "head",
        "plan",
        "size_bytes",
    )

    plan: Plan
    correlation_id: int
    arrived_ms: int
    size_bytes: int
    exchange_id: int
    asked: int
    head: ProduceWalker | FetchHead | None
    body: bytes | None

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

    def __init__(self, exchange: Exchange, reply: bytes) -> None:
        self.exchange = exchange
        self.reply = reply


class OwnExchange:
    """A question of our own on the upstream connection; its reply never reaches the client.

    `on_reply` gets the whole reply frame, or None when the connection ended first.
    """

    __slots__ = ("correlation_id", "on_reply")

    def __init__(self, correlation_id: int, on_reply: Callable[[bytes | None], None]) -> None:
        self.correlation_id = correlation_id
        self.on_reply = on_reply


class Reply:
    """The broker's reply as policies see it."""

    __slots__ = ("size_bytes",)

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes


if TYPE_CHECKING:
    _: Response = Reply(0)
