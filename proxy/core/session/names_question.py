"""Asks the broker for the names of topics that a request names by ids that are not known.

- A policy holds the request for the key TOPIC_NAMES. The request is judged again when the answer has come, with the
  names in it, or at the deadline of its Hold.
- The question goes to the broker of the same session, so it can be asked where clients authenticate to the broker. It
  is no more than the client could ask itself.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from proxy.core.errors import BrokerProtocolError
from proxy.core.session import questions
from proxy.core.session.held_request import HeldRequest
from proxy.core.session.naming_exchange import NamingExchange
from wire import metadata
from wire.errors import WireError

if TYPE_CHECKING:
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.link import Link

MAX_IDS: Final = 1_000
"""Ids in one question; further ones stay unknown."""


def unknown_ids(exchange: ObservedExchange) -> tuple[bytes, ...]:
    """Return the ids of the topics in this request whose names are not known."""
    names = exchange.names if isinstance(exchange, NamingExchange) else None
    if names is None:
        return ()
    ids = (each.topic_id for each in names.topics if each.name is None)
    return tuple(islice(dict.fromkeys(each for each in ids if each and any(each)), MAX_IDS))


def ask_names(link: Link, exchange: ObservedExchange, ids: tuple[bytes, ...]) -> None:
    """Ask for the names of these topics, and end the wait of the request when the answer has come."""

    def on_answer(frame: bytes | None) -> None:
        if frame is None:  # the connection ends
            return
        try:
            learned = metadata.names_in_answer(frame)
        except WireError as error:
            raise BrokerProtocolError(f"Metadata response is malformed: {error}") from error
        shared = link.shared
        shared.rewrites.learn(learned)
        held = link.held
        if isinstance(held, HeldRequest) and held.exchange is exchange:
            held.try_complete(shared.now_ms)

    questions.inquire(link, metadata.names_request(ids), metadata.NAMES_CORRELATION_ID, on_answer)
