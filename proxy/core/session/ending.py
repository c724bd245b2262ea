"""How a session ends: when it is asked to, when a side goes away, when something is wrong.

Rules:
- What is in flight is answered first, if anybody can still answer; every exchange completes exactly once.
- A fault ends its own session, and no other. It takes nothing from the frames before it, so it does not matter
  where a read ended.
- A fault at a request (the client's, a policy's, our own) ends the session after the replies that are due, within
  `LAST_REPLIES_MS`. A fault at a reply ends it at once, for no reply may leave before that one.
- Behind a request of which not all was sent nothing goes to the broker any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import Outcome
from policies.chain import PolicyFault
from proxy.core.errors import CloseReason, SessionFault
from proxy.core.memory import slow_clients
from proxy.core.protocol_sniffer import WANTS_SASL, WANTS_TLS, guess_protocol
from proxy.core.session import (
    broker_waits,
    deadlines,
    in_flight,
    reply_stream,
    request_stream,
)
from proxy.core.session.channel import Mute
from proxy.core.session.exchange import AnsweredExchange, Exchange, ProxyExchange, SwallowedExchange
from proxy.core.session.state import STREAM, SessionState
from wire.errors import WireError

if TYPE_CHECKING:
    from policies.api import Peer
    from proxy.core.engine import Engine

LAST_REPLIES_MS = 30_000
"""How long a session may still wait for the replies that are due after a fault at a request."""


class SessionEnd(SessionState):
    """See the module."""

    __slots__ = ()

    def __init__(self, engine: Engine, peer: Peer) -> None:
        super().__init__(engine, peer)
        self.broker.on_unsent = self.watch_unsent

    def end_after_replies(self, reason: CloseReason, detail: str = "") -> None:
        """Take no more requests; what is in flight is answered, then both sides are closed."""
        if self.ending or self.ended:
            return
        self.ending = self.attention = self.unusual_requests = True
        self.unusual_replies += 1
        self.reason = self.reason or reason
        self.detail = self.detail or detail
        self.maybe_end()

    def maybe_end(self) -> None:
        """The end has come when it is wanted, no request is half sent and no reply is due."""
        if self.ending and not self.request_left and self.pending is None and self.held is None:
            self.client.mute(Mute.ENDING)
            self.attention = True
            if self.draining:
                broker_waits.expire(self, self.engine.now_ms, draining=True)
            if not self.queue or isinstance(self.queue[-1], SwallowedExchange):
                self.ended = True
            elif self.draining and deadlines.only_waits(self):
                self.end(CloseReason.DRAINED, "", self.engine.now_ms)  # who knows for how long

    def drain(self) -> None:
        """The proxy is going down: finish the request that is passing, answer what is in flight.

        Who was held goes on at once: it has waited for a reply, and here is the last chance of one.
        """
        try:
            while self.held is not None:
                self.held.over(self.engine.now_ms)
            if self.pending is not None:
                self.unmute(Mute.THROTTLED)
                self.tell_unmuted()
            self.draining = True
            self.end_after_replies(CloseReason.DRAINED)
            self.maybe_end()
        except Exception as fault:  # noqa: BLE001 - a policy's bug costs this session only
            self.fail(fault, CloseReason.INTERNAL)

    def look_at_queue(self, now_ms: int) -> None:
        """The timer for what the broker owes."""
        try:
            broker_waits.look(self, now_ms)
        except Exception as fault:  # noqa: BLE001 - a policy's bug costs this session only
            self.fail(fault, CloseReason.INTERNAL)
            self.engine.attend(self)

    def watch_unsent(self) -> None:
        """Something waits for the broker to take it."""
        deadlines.watch_unsent(self)

    def look_at_reading(self, now_ms: int) -> None:
        """The timer for a frame that holds memory and is not here yet."""
        try:
            slow_clients.look(self, now_ms)
        except Exception as fault:  # noqa: BLE001 - whatever it is, it costs this session only
            self.fail(fault, CloseReason.INTERNAL)
            self.engine.attend(self)

    def client_gone(self, now_ms: int) -> None:
        """The client has said its last byte (half-close). It may still be reading."""
        if self.request_left and self.request_mode == STREAM:
            self._lose_half_sent(now_ms)
        elif self.request_left:
            request_stream.forget(self, now_ms)
        self.request_left = 0
        self.end_after_replies(CloseReason.CLIENT_CLOSED)
        self.maybe_end()

    def client_hung_up(self, now_ms: int) -> None:
        """The client has closed its side while a request of it is held: nobody waits for that any more.

        One without reply (acks=0) stays: its sender may have left in good faith.
        """
        held = self.held
        if held is None:
            return
        held.hung_up = True
        if not held.exchange.plan.silent:
            held.drop(now_ms)
            self.client.take()
            request_stream.forget(self, now_ms)
            self.end_after_replies(CloseReason.CLIENT_CLOSED)
            self.maybe_end()

    def client_lost(self, now_ms: int) -> None:
        """The client's connection broke; nobody reads replies any more."""
        self.client.clear()
        self.end(CloseReason.CLIENT_RESET, "", now_ms)

    def upstream_closed(self) -> None:
        """The connection to the broker is closed: it has forgotten what was announced."""
        self.engine.announced.give_back(self)

    def broker_gone(self, reason: CloseReason, now_ms: int) -> None:
        """The broker's connection ended. What it did reply is still delivered."""
        if self.queue and self.peer.node_id is None and not self.ending:
            self._tell_first_unanswered()
        self.broker.clear()
        self.end(reason, "", now_ms)

    def _tell_first_unanswered(self) -> None:
        """A bootstrap broker that hangs up on the first requests is most likely not spoken to as it wants."""
        head, engine = self.queue[0], self.engine
        if not self.node.heard_ms or guess_protocol(self.broker.carry):
            likely = WANTS_TLS
        elif (
            self.identity is None
            and not engine.topology.knows_any
            and isinstance(head, Exchange)
            and not head.plan.spared
        ):
            likely = WANTS_SASL
        else:
            return
        engine.observer.on_bootstrap_closed(self.peer, self.node.address, likely)

    def fail(self, fault: Exception, blamed: CloseReason) -> None:
        """A fault ends this session at once, and no other. What is settled still goes out, but not to a broker
        whose fault it was.
        """
        reason = self._reason_of(fault, blamed)
        if reason is CloseReason.BROKER_PROTOCOL:
            self.broker.clear()
        self.end(reason, str(fault), self.engine.now_ms)

    def fail_request(self, fault: Exception) -> None:
        """A fault at the request that was about to begin, or is passing: the session ends after the replies to those
        before it. The caller has handed these on.
        """
        now_ms = self.engine.now_ms
        reason = self._reason_of(fault, CloseReason.CLIENT_PROTOCOL)
        if self.request_left and self.request_mode == STREAM:
            self._lose_half_sent(now_ms)
        self.request_left = 0
        if self.held is not None:
            self.held.drop(now_ms)
        request_stream.forget(self, now_ms)
        if not any(each is self.judged or _answers(each, self.judged) for each in self.queue):
            self._complete_judged(now_ms)
        self.end_after_replies(reason, str(fault))
        self.maybe_end()
        if not self.ended:
            if self.read_timer is not None:
                self.read_timer.cancel()
            # Nothing is read any more, so this timer is free.
            self.read_timer = self.engine.timers.arm(now_ms + LAST_REPLIES_MS, self._give_up)

    def _give_up(self, now_ms: int) -> None:
        self.read_timer = None
        if not self.ended:
            self.end(self.reason or CloseReason.INTERNAL, "", now_ms)
            self.engine.attend(self)

    def _reason_of(self, fault: Exception, blamed: CloseReason) -> CloseReason:
        if isinstance(fault, SessionFault):
            return fault.reason
        if isinstance(fault, PolicyFault):
            return CloseReason.POLICY_FAULT
        if isinstance(fault, WireError):
            return blamed
        self.engine.observer.on_internal_error(fault)
        return CloseReason.INTERNAL

    def crash(self, fault: Exception) -> None:
        """An exception that no narrower guard has caught: the session ends, even if its end raises too."""
        try:
            self.fail(fault, CloseReason.INTERNAL)
        except Exception as again:  # noqa: BLE001 - then it ends without telling the rest
            self.engine.report(again)
            self.reason = self.reason or CloseReason.INTERNAL
            self.ending = self.ended = self.attention = True

    def end(self, reason: CloseReason, detail: str, now_ms: int) -> None:
        """Close both sides as soon as their outboxes are empty. Every exchange completes now."""
        if self.ended and not self.queue:
            self.reason = self.reason or reason
            self.attention = True
            self._complete_judged(now_ms)
            return
        self.reason = reason if not self.ending else self.reason or reason
        self.detail = detail or self.detail
        self.ending = self.ended = self.attention = self.unusual_requests = True
        self.client.mute(Mute.ENDING)
        self.broker.mute(Mute.ENDING)
        if self.held is not None:
            self.held.drop(now_ms)
        request_stream.let_go(self)
        reply_stream.forget(self)
        while self.queue:
            head = self.queue.popleft()
            if isinstance(head, ProxyExchange):
                head.on_reply(None)
            elif isinstance(head, SwallowedExchange):
                self.node.on_settled()
            elif isinstance(head, AnsweredExchange):
                self.client.pool.release(len(head.reply))
                self.complete(head.exchange, Outcome.DISCONNECTED, now_ms, forwarded=False)
            else:
                self.complete(head, Outcome.DISCONNECTED, now_ms)
        in_flight.forget(self)
        self._complete_judged(now_ms)

    def _complete_judged(self, now_ms: int) -> None:
        """Whatever raised between a verdict and what came of it: the request has ended, and all are told."""
        judged, self.judged = self.judged, None
        if judged is not None:
            self.complete(judged, Outcome.DISCONNECTED, now_ms, forwarded=False)

    def release(self, now_ms: int) -> None:
        """Both sides are closed: give everything back and say goodbye. Called once, by the event loop."""
        self.end(CloseReason.CLIENT_CLOSED, "", now_ms)
        self.bear(self.client.muted, -1)
        self.tell_unmuted()
        self.client.clear()
        self.broker.clear()
        self.plans.clear()  # one of them may refer to this session
        self.broker.on_unsent = None  # so does this
        request_stream.forget(self, now_ms)
        reply_stream.forget(self)
        self.upstream_closed()
        in_flight.forget(self)
        for timer in (self.timer, self.throttle_timer, self.read_timer):
            if timer is not None:
                timer.cancel()
        self.timer = self.throttle_timer = self.read_timer = None
        self.engine.release(self, now_ms)

    def _lose_half_sent(self, now_ms: int) -> None:
        """The newest request will never be whole, so no reply to it can come."""
        passing = self.passing
        if passing is not None and self.queue and self.queue[-1] is passing:
            self.queue.pop()
            self.complete(passing, Outcome.DISCONNECTED, now_ms)
        self.passing = self.walker = None


def _answers(queued: object, exchange: object) -> bool:
    """Whether this is the reply to it, made here, that waits for its turn."""
    return isinstance(queued, AnsweredExchange) and queued.exchange is exchange
