"""Asks the broker about the topics that a request names: for their names by ids that are not known, or if they exist.

- A policy holds the request for the key TOPIC_NAMES, or for a TopicsQuestion. The request is judged again when the
  answer has come, or at the deadline of its Hold. Names are in the request then, and the rest in the question.
- An answer whether topics exist that is too large to be read in one step is as none.
- The question goes to the broker of the same session, so it can be asked where clients authenticate to the broker. It
  is no more than the client could ask itself.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

from policies.topics_question import MAX_NAMES
from proxy.core.errors import BrokerProtocolError
from proxy.core.session import questions
from proxy.core.session.naming_exchange import NamingExchange
from wire import metadata
from wire.errors import BudgetError, WireError
from wire.topic_existence import CORRELATION_ID, existence_request, read_existence

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.topics_question import TopicsQuestion
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


def ask_names(link: Link, ids: tuple[bytes, ...]) -> None:
    """Ask for the names of these topics, and end the wait of the held request when the answer has come."""

    def learn(frame: bytes) -> None:
        link.shared.rewrites.learn(metadata.names_in_answer(frame))

    _ask(link, metadata.names_request(ids), metadata.NAMES_CORRELATION_ID, learn)


def ask_existence(link: Link, question: TopicsQuestion) -> None:
    """Ask whether topics exist, and end the wait of the held request when the answer has come."""

    def learn(frame: bytes) -> None:
        with suppress(BudgetError):
            question.found = read_existence(frame, with_ids=question.with_ids)

    names = question.names[:MAX_NAMES]
    request = existence_request(names, with_ids=question.with_ids)
    _ask(link, request, CORRELATION_ID, learn)


def _ask(link: Link, request: bytes, correlation_id: int, learn: Callable[[bytes], None]) -> None:
    held = link.held

    def on_answer(frame: bytes | None) -> None:
        if frame is None:  # the connection ends
            return
        try:
            learn(frame)
        except WireError as error:
            raise BrokerProtocolError(f"Metadata response is malformed: {error}") from error
        if held is not None and link.held is held:
            held.try_complete(link.shared.now_ms)

    questions.inquire(link, request, correlation_id, on_answer)
