"""The exchanges of a session, oldest first: the reply of the first is due next.

Rules:
- The broker answers in order, so a reply belongs to the head of the queue.
- `unusual` counts the reasons why replies may not take the fast loop: every entry that is not a client's request to
  the broker, and each `watch` of the session. While it is 0 each entry is an Exchange.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from proxy.core.session.exchange import (
    AnsweredExchange,
    Exchange,
    ProxyExchange,
    SwallowedExchange,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    Queued: TypeAlias = Exchange | AnsweredExchange | SwallowedExchange | ProxyExchange


class ExchangeQueue(deque["Queued"]):
    """A deque that knows its unusual entries. Plain exchanges are pushed and popped as in any deque."""

    __slots__ = ("unusual",)

    def __init__(self) -> None:
        super().__init__()
        self.unusual = 0

    def watch(self) -> None:
        """Keep replies off the fast loop, until `unwatch`."""
        self.unusual += 1

    def unwatch(self) -> None:
        """Undo one `watch`."""
        self.unusual -= 1

    def push_unusual(self, entry: AnsweredExchange | ProxyExchange) -> None:
        """Append a reply made here that waits for its turn, or a request of our own."""
        self.unusual += 1
        self.append(entry)

    def swallow(self, place: int, exchange: Exchange, now_ms: int) -> None:
        """Note that the exchange at `place` was answered here: the broker's late reply will be discarded."""
        self[place] = SwallowedExchange(exchange.correlation_id, now_ms)
        self.unusual += 1

    def pop_head(self) -> Queued:
        """Remove and return the oldest entry."""
        head = self.popleft()
        if not isinstance(head, Exchange):
            self.unusual -= 1
        return head

    def maybe_take_answer(self, place: int) -> AnsweredExchange | None:
        """Remove and return the reply made here at `place`; None if the entry there is another kind."""
        if place >= len(self):
            return None
        entry = self[place]
        if not isinstance(entry, AnsweredExchange):
            return None
        del self[place]
        self.unusual -= 1
        return entry

    def unanswered_place(self) -> int:
        """Return the place of the first entry that was not answered here; the length if there is none."""
        for place, entry in enumerate(self):
            if not isinstance(entry, SwallowedExchange):
                return place
        return len(self)
