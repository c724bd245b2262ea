"""How a session ends: on request, after one side has closed, or after a fault.

Rules:
- Requests in flight are answered first, if they can still be answered; every exchange completes exactly once.
- A fault ends its own session, and no other. It takes nothing from the frames before it, so it does not matter
  where a read ended.
- A fault at a request (the client's, a policy's, our own) ends the session after the replies that are due, within
  `LAST_REPLIES_MS`. A fault at a reply ends it at once, because no later reply may leave before that one.
- After a request that was sent only in part nothing more is sent to the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from policies.api import Outcome
from policies.chain import PolicyFault
from proxy.core.errors import CloseReason, SessionFault
from proxy.core.protocol_sniffer import WANTS_SASL, WANTS_TLS, guess_protocol
from proxy.core.retirements import LAST_REPLIES_MS
from proxy.core.session.broker_waits import only_waits
from proxy.core.session.channel import Mute
from proxy.core.session.exchange import AnsweredExchange, Exchange, ProxyExchange, SwallowedExchange
from proxy.core.session.owner import Owner
from wire.apis import SIGN_ON
from wire.errors import WireError

if TYPE_CHECKING:
    from proxy.core.session.held_request import HeldRequest
    from proxy.core.session.request_stream import RequestStream
    from proxy.core.session.sasl_side import SaslSide


class EndingOwner(Owner, Protocol):
    """The session as `Ending` sees it: an `Owner` with these attributes and methods."""

    @property
    def held(self) -> HeldRequest | None: ...
    @property
    def requests(self) -> RequestStream | None: ...
    @property
    def sasl(self) -> SaslSide | None: ...
    def drop_kept_requests(self) -> None: ...
    def forget_requests(self, now_ms: int) -> None: ...
    def forget_replies(self) -> None: ...
    def forget_in_flight(self) -> None: ...
    def answer_waiting_fetches(self, now_ms: int) -> None: ...
    def end_throttle(self) -> None: ...


class Ending:
    """How one session ends. Made when the end begins. It refers to no session: each call gets the session as `owner`.

    `ending`: it takes no more requests, and ends when the last reply is out. `draining`: because the proxy is going
    down, so fetches that wait are answered empty. `ended`: both sides are to be closed once their outboxes are empty.
    """

    __slots__ = ("detail", "draining", "ended", "ending", "reason")

    def __init__(self) -> None:
        self.ending = self.draining = self.ended = False
        self.reason: CloseReason | None = None
        self.detail = ""

    # -- after the last reply --------------------------------------------------------------------

    def end_after_replies(self, owner: EndingOwner, reason: CloseReason, detail: str = "") -> None:
        """Take no more requests; what is in flight is answered, then both sides are closed."""
        if self.ending or self.ended:
            return
        self.ending = True
        self.reason = self.reason or reason
        self.detail = self.detail or detail
        owner.keep_off_fast_loop()
        owner.queue.watch()
        owner.call_attention()
        self.maybe_end(owner)

    def maybe_end(self, owner: EndingOwner) -> None:
        """End the session if an end was requested, no request is half sent and no reply is due."""
        if not self.ending or owner.is_inside_request or owner.held is not None:
            return
        owner.client.mute(Mute.ENDING)
        owner.call_attention()
        now_ms = owner.shared.now_ms
        if self.draining:
            owner.answer_waiting_fetches(now_ms)
        queue = owner.queue
        if not queue or isinstance(queue[-1], SwallowedExchange):
            self.ended = True
        elif self.draining and only_waits(owner):
            self.end(owner, CloseReason.DRAINED, "", now_ms)  # there is no telling for how long

    def drain(self, owner: EndingOwner, now_ms: int) -> None:
        """End this session because the proxy shuts down: finish the request that is passing, answer those in flight.

        A held request ends its wait at once, so that it can still be answered.
        """
        try:
            while owner.held is not None:
                owner.held.over(now_ms)
            if owner.has_pending:
                owner.end_throttle()
            self.draining = True
            self.end_after_replies(owner, CloseReason.DRAINED)
            self.maybe_end(owner)
        except Exception as fault:  # noqa: BLE001 - a policy's bug costs this session only
            self.fail(owner, fault, CloseReason.INTERNAL)

    def on_client_gone(self, owner: EndingOwner, now_ms: int) -> None:
        """End this session after its replies: the client has closed its sending side, and may still be reading."""
        requests = owner.requests
        if requests is not None and requests.left and requests.streams:
            requests.lose_half_sent(now_ms)
        elif owner.is_inside_request and owner.held is None:
            # Part of a request that is kept, or too little of it to begin. A muted client is not read up to its end.
            owner.client.take()
            owner.forget_requests(now_ms)
        self.end_after_replies(owner, CloseReason.CLIENT_CLOSED)
        self.maybe_end(owner)

    def on_client_hung_up(self, owner: EndingOwner, held: HeldRequest, now_ms: int) -> None:
        """Drop the held request of a client that has closed its side, because its reply would not be read.

        One without reply (acks=0) stays: its sender may have left in good faith.
        """
        held.hung_up = True
        if not held.exchange.plan.silent:
            held.drop(now_ms, CloseReason.CLIENT_CLOSED)
            owner.client.take()
            owner.forget_requests(now_ms)
            self.end_after_replies(owner, CloseReason.CLIENT_CLOSED)
            self.maybe_end(owner)

    # -- at once ---------------------------------------------------------------------------------

    def end(self, owner: EndingOwner, reason: CloseReason, detail: str, now_ms: int) -> None:
        """Close both sides as soon as their outboxes are empty. Every exchange completes now."""
        if self.ended and not owner.queue:
            self.reason = self.reason or reason
            owner.call_attention()
            self._complete_judged(owner, now_ms)
            return
        self.reason = reason if not self.ending else self.reason or reason
        self.detail = detail or self.detail
        self.ending = self.ended = True
        owner.keep_off_fast_loop()
        owner.call_attention()
        owner.client.mute(Mute.ENDING)
        owner.broker.mute(Mute.ENDING)
        if owner.held is not None:
            owner.held.drop(now_ms, reason)
        owner.drop_kept_requests()
        owner.forget_replies()
        while owner.queue:
            head = owner.queue.pop_head()
            if isinstance(head, ProxyExchange):
                head.on_reply(None)
            elif isinstance(head, SwallowedExchange):
                owner.node.on_settled()
            elif isinstance(head, AnsweredExchange):
                owner.client.pool.release(len(head.reply))
                owner.complete(head.exchange, Outcome.DISCONNECTED, now_ms, forwarded=False)
            else:
                owner.complete(head, Outcome.DISCONNECTED, now_ms)
        owner.forget_in_flight()
        self._complete_judged(owner, now_ms)

    def on_broker_gone(
        self, owner: EndingOwner, reason: CloseReason, detail: str, now_ms: int
    ) -> None:
        """End this session: the broker's connection is closed. Replies that were received are still delivered."""
        if owner.queue and owner.peer.node_id is None and not self.ending:
            self._tell_first_unanswered(owner)
        owner.broker.clear()
        self.end(owner, reason, detail, now_ms)

    def _tell_first_unanswered(self, owner: EndingOwner) -> None:
        """Report a bootstrap broker that closed on the first requests: it most likely expects TLS or SASL."""
        head, topology = owner.queue[0], owner.shared.topology
        if owner.shared.has_custody:  # it has authenticated Sluice, so it is something else
            return
        if not owner.node.heard_ms or guess_protocol(owner.broker.carry):
            likely = WANTS_TLS
        elif (
            owner.sasl is None
            and not topology.knows_any
            and isinstance(head, Exchange)
            and head.plan.api.key not in SIGN_ON
        ):
            likely = WANTS_SASL
        else:
            return
        owner.shared.observer.on_bootstrap_closed(owner.peer, owner.node.address, likely)

    def _complete_judged(self, owner: EndingOwner, now_ms: int) -> None:
        if owner.requests is not None:
            owner.requests.complete_judged(now_ms)

    # -- faults ----------------------------------------------------------------------------------

    def fail(self, owner: EndingOwner, fault: Exception, blamed: CloseReason) -> None:
        """End this session, and no other, because of a fault. Settled bytes are still sent, except to a broker
        that caused the fault.
        """
        reason = self._reason_of(owner, fault, blamed)
        if reason is CloseReason.BROKER_PROTOCOL:
            owner.broker.clear()
        self.end(owner, reason, str(fault), owner.shared.now_ms)

    def fail_request(self, owner: EndingOwner, fault: Exception) -> None:
        """End this session because of a fault at the request that begins or is passing. The replies to earlier
        requests, which the caller has forwarded, are still sent.
        """
        now_ms = owner.shared.now_ms
        reason = self._reason_of(owner, fault, CloseReason.CLIENT_PROTOCOL)
        requests = owner.requests
        if requests is not None and requests.left and requests.streams:
            requests.lose_half_sent(now_ms)
        if owner.held is not None:
            owner.held.drop(now_ms, reason)
        owner.forget_requests(now_ms)
        judged = None if requests is None else requests.judged
        if not any(each is judged or _answers(each, judged) for each in owner.queue):
            self._complete_judged(owner, now_ms)
        self.end_after_replies(owner, reason, str(fault))
        self.maybe_end(owner)
        if not self.ended:

            def give_up(now_ms: int) -> None:
                if not self.ended:
                    owner.end_and_attend(self.reason or CloseReason.INTERNAL, "", now_ms)

            # Nothing is read any more, so the timer for reads is free.
            owner.claim.call_at(now_ms + LAST_REPLIES_MS, give_up)

    def crash(self, owner: EndingOwner, fault: Exception) -> None:
        """End this session after an exception that no other handler has caught, even if ending it raises too."""
        try:
            self.fail(owner, fault, CloseReason.INTERNAL)
        except Exception as again:  # noqa: BLE001 - then it ends without telling the rest
            owner.shared.report(again)
            self.reason = self.reason or CloseReason.INTERNAL
            self.ending = self.ended = True
            owner.call_attention()

    def _reason_of(self, owner: EndingOwner, fault: Exception, blamed: CloseReason) -> CloseReason:
        if isinstance(fault, SessionFault):
            return fault.reason
        if isinstance(fault, PolicyFault):
            return CloseReason.POLICY_FAULT
        if isinstance(fault, WireError):
            return blamed
        owner.shared.observer.on_internal_error(fault)
        return CloseReason.INTERNAL


def _answers(queued: object, exchange: object) -> bool:
    """Return whether `queued` is a reply to `exchange` that was made here and waits for its turn."""
    return isinstance(queued, AnsweredExchange) and queued.exchange is exchange
