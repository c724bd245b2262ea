"""Judges a request that was kept whole, and applies the verdict.

A large one takes several turns: the code pauses between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import TOPIC_NAMES, Forward, Hold, Outcome, Reject, Respond, Throttle
from policies.chain import PolicyFault
from policies.denial import Deny
from proxy.core.session import mutes
from proxy.core.session.body_walk import reading_whole_head
from proxy.core.session.buffered_request import body_at as whole_body_at
from proxy.core.session.buffered_request import hide, show
from proxy.core.session.exchange import Pending
from proxy.core.session.held_request import hold
from proxy.core.session.kept_produce import on_sent
from proxy.core.session.local_replies import as_planned, refuse, respond
from proxy.core.session.names_question import ask_names, unknown_ids
from proxy.core.session.naming_exchange import MAX_ELEMENTS, NamingExchange
from proxy.core.session.whole_request import put_whole
from wire.errors import BudgetError, ErrorCode
from wire.request_names import TOO_MANY

if TYPE_CHECKING:
    from collections.abc import Generator

    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.link import Link
    from proxy.core.session.shared_state import SharedState

_TOO_MANY = Reject(
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    message=f"the request has more than {MAX_ELEMENTS} elements, too many to be judged",
)
"""All clients show this error, and none tries again."""


def judging(
    link: Link, frame: bytearray, pending: Pending, now_ms: int
) -> Generator[Pending, None, bool]:
    """Ask the policies about a whole request (if not asked yet), and apply the verdict.

    Yields the request with its verdict so far where it pauses. Returns whether a policy holds it.
    """
    shared = link.shared
    exchange, verdict = pending
    assert not isinstance(verdict, PolicyFault)  # noqa: S101 - `take` has looked
    body_at = whole_body_at(exchange, frame)
    if verdict is None:
        for _ in _showing(shared, exchange, frame, body_at):
            yield pending
        if isinstance(exchange, NamingExchange) and exchange.is_large:
            for _ in link.calls.preparing(exchange, shared.now_ms):
                yield pending
        link.usage.charge(exchange.size_bytes)
        verdict = as_planned(exchange.plan, link.ask(exchange, shared.now_ms))
    now_ms = shared.now_ms
    while link.ending and isinstance(verdict, Hold):  # no request is held any more
        verdict = link.calls.ask_again(exchange, verdict.then, now_ms)
    if isinstance(verdict, Hold):
        ids = unknown_ids(exchange) if verdict.watch == TOPIC_NAMES else ()
        hide(exchange)
        hold(link, exchange, verdict, now_ms)
        if ids:
            ask_names(link, ids)
        return True
    if isinstance(verdict, Throttle):
        mutes.throttle_request(link, exchange, verdict.throttle_time_ms, now_ms, verdict.why)
        verdict = verdict.forward
    if isinstance(exchange, NamingExchange) and exchange.names is TOO_MANY:
        verdict = verdict if isinstance(verdict, Reject | Respond) else _TOO_MANY
    if isinstance(verdict, Deny):  # of the only policy
        verdict = Forward(denials=(verdict,))
    judged = Pending(exchange, verdict)
    if isinstance(verdict, Forward):
        putting = put_whole(link, exchange, frame, body_at, verdict, now_ms)
        is_sent = False
        while True:
            try:
                next(putting)
            except StopIteration as end:
                is_sent = end.value
                break
            yield judged
        if is_sent:
            _forward(link, exchange, shared.now_ms)
        if verdict.denials:
            from proxy.core.session.denied_parts import (  # noqa: PLC0415 - as in `put_whole`
                maybe_end_after,
            )

            maybe_end_after(link, exchange, verdict.denials)
    elif isinstance(verdict, Respond):
        respond(link, exchange, verdict, now_ms)
    elif isinstance(verdict, Reject):
        body = bytes(memoryview(frame)[body_at:])
        for _ in refuse(link, exchange, verdict, body, now_ms):
            yield judged
    hide(exchange)
    link.give_back_claim()
    return False


def _forward(link: Link, exchange: ObservedExchange, now_ms: int) -> None:
    """Record that a request is forwarded: its reply is due, or it is complete."""
    on_sent(exchange, now_ms)
    if exchange.plan.silent:
        link.complete(exchange, Outcome.NO_REPLY, now_ms)
    else:
        link.queue.append(exchange)


def _showing(
    shared: SharedState, exchange: ObservedExchange, frame: bytearray, body_at: int
) -> Generator[None, None, None]:
    """Set what the policies need of a whole request, with pauses in a large one."""
    end = len(frame)
    yield from reading_whole_head(shared, exchange, frame, body_at, end)
    try:
        show(shared, exchange, frame, body_at, end)
    except BudgetError:
        if not isinstance(exchange, NamingExchange):
            raise
        yield from exchange.show_in_turns(frame, body_at, end, shared.rewrites.topics)
