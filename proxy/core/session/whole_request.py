"""Forwards a request that was kept whole for a policy, as its verdict has changed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.core.session.body_walk import on_produced_whole
from proxy.core.session.buffered_request import changed, leaves_session, with_new_wait
from proxy.core.session.held_request import HoldOwner
from proxy.core.session.kept_produce import keep, leave_to_broker
from proxy.core.session.local_replies import answer
from proxy.core.session.naming_exchange import NamingExchange
from proxy.core.session.plan import SASL
from wire.apis import ApiKey
from wire.fetch import read_head, session_gone

if TYPE_CHECKING:
    from collections.abc import Generator

    from policies.api import Forward
    from proxy.core.session.exchange import ObservedExchange


class WholeOwner(HoldOwner, Protocol):
    """The session as whole requests see it: a `HoldOwner` that may answer SASL requests itself."""

    def takes_sasl(
        self, exchange: ObservedExchange, frame: bytearray, body_at: int, now_ms: int
    ) -> bool:
        """Handle a whole SASL request; return whether it is answered here, and not forwarded."""


def put_whole(
    owner: WholeOwner,
    exchange: ObservedExchange,
    frame: bytearray,
    body_at: int,
    verdict: Forward,
    now_ms: int,
) -> Generator[None, None, bool]:
    """Put the request into the broker's channel; return False if it is answered here instead.

    It pauses if a part of a large one is denied.
    """
    shared, plan = owner.shared, exchange.plan
    if plan.api.key in SASL and owner.takes_sasl(exchange, frame, body_at, now_ms):
        return False
    sent_on = changed(owner, exchange, frame, body_at, verdict, now_ms)
    if (
        plan.api.key == ApiKey.FETCH
        and isinstance(exchange, NamingExchange)
        and not leaves_session(
            plan.api, sent_on, body_at, read_head(sent_on, body_at, len(sent_on), plan.api.version)
        )
    ):
        answer(owner, exchange, session_gone(plan.api), now_ms)
        return False
    if verdict.denials:
        from proxy.core.session.denied_parts import (  # noqa: PLC0415 - a Sluice without denials does not keep it
            without_denied,
        )

        rest = yield from without_denied(owner, exchange, sent_on, body_at, verdict.denials, now_ms)
        if rest is None:
            return False
        frame = sent_on = rest
        plan = exchange.plan
    if plan.api.key == ApiKey.FETCH:
        exchange.plan = plan = with_new_wait(plan, sent_on, body_at, shared.graces)
        owner.plans.note_wait(plan.wait_ms)
    owner.broker.put(sent_on, shared.reservations.hand_over(owner.claim))
    shared.reservations.serve_freed()
    owner.call_attention()
    if plan.keeps:
        exchange.kept, left = keep(plan, frame, 0, len(frame))
    if plan.keeps and left < 0:
        leave_to_broker(exchange)
    owner.on_kept(exchange)
    if plan.topics and plan.api.key == ApiKey.PRODUCE:
        on_produced_whole(shared, exchange, sent_on, body_at)
    return True
