"""Forwards a request that was kept whole for a policy, as its verdict has changed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.session import crowding
from proxy.core.session.body_walk import on_produced_whole
from proxy.core.session.buffered_request import changed, leaves_session, with_new_wait
from proxy.core.session.kept_produce import keep, keep_tagged, leave_to_broker
from proxy.core.session.local_replies import answer
from proxy.core.session.naming_exchange import NamingExchange
from proxy.core.session.plan import SASL
from wire.apis import ApiKey
from wire.fetch import read_head, session_gone

if TYPE_CHECKING:
    from collections.abc import Generator

    from policies.api import Forward
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.link import Link


def put_whole(
    link: Link,
    exchange: ObservedExchange,
    frame: bytearray,
    body_at: int,
    verdict: Forward,
    now_ms: int,
) -> Generator[None, None, bool]:
    """Put the request into the broker's channel; return False if it is answered here instead.

    It pauses if a part of a large one is denied.
    """
    shared, plan = link.shared, exchange.plan
    if plan.api.key in SASL:
        body = bytes(memoryview(frame)[body_at:])
        if link.sasl_now().takes(exchange, body, now_ms):
            return False
    sent_on = changed(link, exchange, frame, body_at, verdict, now_ms)
    if (
        plan.api.key == ApiKey.FETCH
        and isinstance(exchange, NamingExchange)
        and not leaves_session(
            plan.api, sent_on, body_at, read_head(sent_on, body_at, len(sent_on), plan.api.version)
        )
    ):
        answer(link, exchange, session_gone(plan.api), now_ms)
        return False
    if verdict.denials:
        from proxy.core.session.denied_parts import (  # noqa: PLC0415 - a Sluice without denials does not keep it
            without_denied,
        )

        rest = yield from without_denied(link, exchange, sent_on, body_at, verdict.denials, now_ms)
        if rest is None:
            return False
        frame = sent_on = rest
        plan = exchange.plan
    if plan.api.key == ApiKey.FETCH:
        exchange.plan = plan = with_new_wait(plan, sent_on, body_at, shared.graces)
        link.plans.note_wait(plan.wait_ms)
    link.broker.put(sent_on, shared.reservations.hand_over(link.claim))
    shared.reservations.serve_freed()
    link.uses_outboxes = True
    if plan.keeps_partitions:
        exchange.kept = keep(plan, frame, 0, len(frame))
        if exchange.kept is None:
            exchange.kept, _ = keep_tagged(plan, frame, 0, len(frame))
        if exchange.kept is None:
            leave_to_broker(exchange)
    crowding.on_kept(link, exchange)
    if plan.counts_produced:
        on_produced_whole(shared, exchange, sent_on, body_at)
    return True
