"""How a session ends: when it is asked to, when a side goes away, when something is wrong.

Rules:
- What is in flight is answered first, if anybody can still answer; every exchange completes exactly once.
- A fault ends its own session, and no other.
"""

from __future__ import annotations

from policies.api import Outcome
from policies.chain import PolicyFault
from proxy.core import delayed, replies, requests, slow_senders
from proxy.core.channel import Mute
from proxy.core.errors import CloseReason, SessionFault
from proxy.core.exchanges import AnsweredExchange, OwnExchange, SwallowedExchange
from proxy.core.state import STREAM, SessionState
from wire.errors import WireError


class SessionEnd(SessionState):
    """See the module."""

    __slots__ = ()

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
                delayed.expire(self, self.engine.now_ms, draining=True)
            if not self.queue or isinstance(self.queue[-1], SwallowedExchange):
                self.ended = True
            elif self.draining and delayed.only_waits(self):
                self.end(CloseReason.DRAINED, "", self.engine.now_ms)  # who knows for how long

    def drain(self) -> None:
        """The proxy is going down: finish the request that is passing, answer what is in flight.

        Who was held goes on at once: it has waited for a reply, and here is the last chance of one.
        """
        try:
            while self.held is not None:
                self.held.over(self.engine.now_ms)
            if self.pending is not None:
                self.unhush(Mute.THROTTLED)
                self.tell_unmuted()
            self.draining = True
            self.end_after_replies(CloseReason.DRAINED)
            self.maybe_end()
        except Exception as fault:  # noqa: BLE001 - a policy's bug costs this session only
            self.fail(fault, CloseReason.INTERNAL)

    def look_at_queue(self, now_ms: int) -> None:
        """The timer for what the broker owes."""
        try:
            delayed.look(self, now_ms)
        except Exception as fault:  # noqa: BLE001 - a policy's bug costs this session only
            self.fail(fault, CloseReason.INTERNAL)
            self.engine.attend(self)

    def look_at_reading(self, now_ms: int) -> None:
        """The timer for a frame that holds memory and is not here yet."""
        slow_senders.look(self, now_ms)

    def client_gone(self, now_ms: int) -> None:
        """The client has said its last byte (half-close). It may still be reading."""
        if self.request_left and self.request_mode == STREAM:
            self._lose_half_sent(now_ms)
        elif self.request_left:
            requests.forget(self, now_ms)
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
            requests.forget(self, now_ms)
            self.end_after_replies(CloseReason.CLIENT_CLOSED)

    def client_lost(self, now_ms: int) -> None:
        """The client's connection broke; nobody reads replies any more."""
        self.client.clear()
        self.end(CloseReason.CLIENT_RESET, "", now_ms)

    def broker_gone(self, reason: CloseReason, now_ms: int) -> None:
        """The broker's connection ended. What it did reply is still delivered."""
        self.broker.clear()
        self.end(reason, "", now_ms)

    def fail(self, fault: Exception, blamed: CloseReason) -> None:
        """A fault ends this session, and no other."""
        if isinstance(fault, SessionFault):
            reason = fault.reason
        elif isinstance(fault, PolicyFault):
            reason = CloseReason.POLICY_FAULT
        elif isinstance(fault, WireError):
            reason = blamed
        else:
            reason = CloseReason.INTERNAL
            self.engine.observer.on_internal_error(fault)
        self.broker.clear()
        self.end(reason, str(fault), self.engine.now_ms)

    def end(self, reason: CloseReason, detail: str, now_ms: int) -> None:
        """Close both sides as soon as their outboxes are empty. Every exchange completes now."""
        if self.ended and not self.queue:
            self.reason = self.reason or reason
            self.attention = True
            return
        self.reason = reason if not self.ending else self.reason or reason
        self.detail = detail or self.detail
        self.ending = self.ended = self.attention = self.unusual_requests = True
        self.client.mute(Mute.ENDING)
        self.broker.mute(Mute.ENDING)
        if self.held is not None:
            self.held.drop(now_ms)
        requests.let_go(self)
        while self.queue:
            head = self.queue.popleft()
            if isinstance(head, OwnExchange):
                head.on_reply(None)
            elif isinstance(head, SwallowedExchange):
                continue
            elif isinstance(head, AnsweredExchange):
                self.client.pool.release(len(head.reply))
                self.complete(head.exchange, Outcome.DISCONNECTED, now_ms, forwarded=False)
            else:
                self.complete(head, Outcome.DISCONNECTED, now_ms)

    def release(self, now_ms: int) -> None:
        """Both sides are closed: give everything back and say goodbye. Called once, by the hub."""
        self.end(CloseReason.CLIENT_CLOSED, "", now_ms)
        self.bear(self.client.muted, -1)
        self.tell_unmuted()
        self.client.clear()
        self.broker.clear()
        self.plans.clear()  # one of them may refer to this session
        requests.forget(self, now_ms)
        replies.forget(self)
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
