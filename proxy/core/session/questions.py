"""Requests of our own to the broker: each is sent at a frame boundary, and its reply never reaches the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.session import mutes
from proxy.core.session.exchange import InsertedRequest, ProxyExchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.session.link import Link


def inquire(
    link: Link, frame: bytes, correlation_id: int, on_reply: Callable[[bytes | None], None]
) -> None:
    """Ask the broker something of our own, at the next frame boundary.

    `frame` is a whole request; its reply goes to `on_reply`, or None if the connection ends first.
    """
    if link.ending:  # a request may be cut; nothing may follow it
        on_reply(None)
        return
    question = InsertedRequest(frame, ProxyExchange(correlation_id, on_reply))
    link.questions = [*(link.questions or ()), question]
    mutes.look_again(link)
    if not link.request_left:
        put(link)
        link.ask_for_turn()


def put(link: Link) -> None:
    """Send the questions to the broker: this is a frame boundary."""
    questions, link.questions = link.questions or (), None
    for question in questions:
        link.broker.put(question.frame)
        question.exchange.arrived_ms = link.shared.now_ms
        link.queue.push_unusual(question.exchange)
    mutes.look_again(link)
    link.uses_outboxes = True


def forget(link: Link) -> None:
    """Answer the questions that were not sent with None, because the session ends."""
    questions, link.questions = link.questions or (), None
    for question in questions:
        question.exchange.on_reply(None)
