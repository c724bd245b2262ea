"""One client, one broker, and everything between them: bytes in, decisions out, no socket.

The seam to the hub is made of integers:

    stop = session.from_client(buf, start, end, now_ms)     # send buf[start:stop] on to the broker
    stop = session.from_broker(buf, start, end, now_ms)     # ... to the client

In the ordinary case that is the whole answer. When anything else has happened (something withheld, made
here, muted, ended) the answer is ATTENTION: then nothing is to be sent from `buf`, what goes out
stands in the channels' outboxes, and the hub settles it. Behind `end` lie old bytes that look valid: never look there.

Rules:
- Here are the fast loops: whole, usual, untouched frames. A frame that is not whole in this read, or
  not usual in any way, goes to `requests.rest` / `replies.rest` before anything is decided about it.
- Nothing is made per frame but one Exchange, and nothing looked up but one Plan.
- What is nearly always false is asked once per read, not once per frame (`unusual`).
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import TYPE_CHECKING

from policies.api import FORWARD, Forward, Outcome, Reject, Respond
from policies.chain import ASKED_ALL, PolicyFault
from proxy.core import replies, requests
from proxy.core.channel import ATTENTION, Channel, Mute
from proxy.core.errors import CloseReason, SessionFault
from proxy.core.exchanges import AnsweredExchange, Exchange, OwnExchange
from proxy.core.plan import ACKS_NONE
from wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Peer, Verdict
    from proxy.core.engine import Engine
    from proxy.core.plan import Plan
    from proxy.core.timers import Timer
    from wire.produce import ProduceWalker

_REQUEST = Struct(">iii").unpack_from  # size, api_key << 16 | api_version, correlation_id
_REPLY = Struct(">ii").unpack_from  # size, correlation_id
_new_exchange = Exchange.__new__

IN_FLIGHT_MOST = 4096
"""Exchanges of one session that may wait for replies before its client is not read any more."""


class Session:
    """See the module. The hub's doors: from_client, from_broker, client_gone, broker_gone, drain, close."""

    __slots__ = (
        "attention",
        "authenticating",
        "broker",
        "client",
        "crowded",
        "detail",
        "ended",
        "ending",
        "engine",
        "exchange_ids",
        "handle",
        "paced",
        "peer",
        "pending",
        "plans",
        "questions",
        "queue",
        "reason",
        "replied_ms",
        "reply_gathered",
        "reply_left",
        "request_gathered",
        "request_left",
        "request_mode",
        "timer",
        "unusual_replies",
        "unusual_requests",
        "walker",
    )

    def __init__(self, engine: Engine, peer: Peer) -> None:
        self.engine = engine
        self.peer = peer
        self.client = Channel(engine.reply_pool)  # what waits for the client are replies
        self.broker = Channel(engine.request_pool)
        self.queue: deque[Exchange | AnsweredExchange | OwnExchange] = deque()
        self.plans: dict[int, Plan] = {}
        self.handle: object = None  # the hub's: how it finds its side of this session
        self.attention = False
        self.unusual_requests = False  # every request takes the general path
        self.unusual_replies = 0  # how many reasons there are for every reply to take it
        self.crowded = False  # too many exchanges in flight: the client is not read
        self.paced = False  # bytes already read wait for the session's next turn (`resume`)
        self.ending = False  # no more requests are taken; the end comes when the last reply is out
        self.ended = False  # both sides are to be closed once their outboxes are empty
        self.reason: CloseReason | None = None
        self.detail = ""
        self.authenticating = False
        self.exchange_ids = 0
        self.timer: Timer | None = None
        # the request that is passing: how many bytes are still to come and what is done with them
        self.request_left = 0
        self.request_mode = requests.STREAM
        self.request_gathered: bytearray | None = None
        self.pending: requests.Pending | None = None
        self.walker: ProduceWalker | None = None
        self.questions: list[requests.Question] | None = None
        # the reply that is passing
        self.replied_ms = 0  # when the broker last sent something
        self.reply_left = 0
        self.reply_gathered: bytearray | None = None

    # -- the two directions --------------------------------------------------------------------

    def from_client(self, buf: bytearray, start: int, end: int, now_ms: int) -> int:
        """Take buf[start:end] from the client. See the module for what comes back."""
        pos = start
        try:
            left = self.request_left
            if left and self.request_mode == requests.STREAM and self.walker is None:
                if end - start < left:
                    self.request_left = left - (end - start)
                    return end
                pos = start + left
                self.request_left = left = 0
            if not (left or self.unusual_requests):
                plans = self.plans
                push = self.queue.append
                while end - pos >= 12:
                    size, kind, correlation_id = _REQUEST(buf, pos)
                    plan = plans.get(kind)
                    stop = pos + 4 + size
                    if (
                        plan is None
                        or stop > end
                        or not plan.least_bytes <= size <= plan.most_bytes
                        or not buf.startswith(plan.usual, pos + 12)
                    ):
                        break
                    if plan.simple:
                        exchange = _new_exchange(Exchange)
                        exchange.plan = plan
                        exchange.correlation_id = correlation_id
                        exchange.arrived_ms = now_ms
                        exchange.size_bytes = size
                    elif plan.fast:
                        exchange = self.admit(plan, correlation_id, size, now_ms)
                        if plan.on_request is not None:
                            verdict = self.ask(exchange, now_ms)
                            if verdict is not FORWARD:
                                self.pending = requests.Pending(exchange, verdict)
                                break
                        if plan.acks == ACKS_NONE:
                            self.complete(exchange, Outcome.NO_REPLY, now_ms)
                            pos = stop
                            continue
                    else:
                        break
                    push(exchange)
                    pos = stop
            if pos != end or self.unusual_requests:
                pos = requests.rest(self, buf, start, pos, end, now_ms)
        except Exception as fault:  # noqa: BLE001 - whatever it is, it costs this session only
            self.fail(fault, CloseReason.CLIENT_PROTOCOL)
            return ATTENTION
        if self.queue:
            if self.timer is None:
                self.engine.watch_head(self, now_ms)
            if len(self.queue) > IN_FLIGHT_MOST:
                self.crowded = True
                self.client.mute(Mute.IN_FLIGHT)
                self.flush_requests(buf, start, pos)
                return ATTENTION
        return pos

    def from_broker(self, buf: bytearray, start: int, end: int, now_ms: int) -> int:
        """Take buf[start:end] from the broker. See the module for what comes back."""
        pos = start
        self.replied_ms = now_ms
        try:
            if not self.unusual_replies and self.reply_gathered is None:
                left = self.reply_left
                if left:
                    if end - start < left:
                        self.reply_left = left - (end - start)
                        return end
                    pos = start + left
                    self.reply_left = 0
                    replies.finish(self, now_ms)
                queue: deque[Exchange] = self.queue  # type: ignore[assignment] # others are unusual
                while end - pos >= 8 and queue:
                    size, correlation_id = _REPLY(buf, pos)
                    exchange = queue[0]
                    stop = pos + 4 + size
                    if correlation_id != exchange.correlation_id or stop > end or size < 4:
                        break
                    plan = exchange.plan
                    if not plan.plain:
                        glance = plan.glance
                        if glance is not None:
                            if not glance(buf, pos, stop):
                                break
                        elif not replies.passes(self, exchange, buf, pos, stop, now_ms):
                            break
                    queue.popleft()
                    pos = stop
            if pos != end:
                pos = replies.rest(self, buf, start, pos, end, now_ms)
            if self.crowded and len(self.queue) < IN_FLIGHT_MOST // 2:
                self.crowded = False
                self.client.unmute(Mute.IN_FLIGHT)
                self.flush_replies(buf, start, pos)
                return ATTENTION
        except Exception as fault:  # noqa: BLE001 - whatever it is, it costs this session only
            self.fail(fault, CloseReason.BROKER_PROTOCOL)
            return ATTENTION
        return pos

    # -- what the general path builds on --------------------------------------------------------

    def admit(self, plan: Plan, correlation_id: int, size_bytes: int, now_ms: int) -> Exchange:
        """An Exchange with every slot set, for a request that somebody wants to see."""
        exchange = _new_exchange(Exchange)
        exchange.plan = plan
        exchange.correlation_id = correlation_id
        exchange.arrived_ms = now_ms
        exchange.size_bytes = size_bytes
        exchange.exchange_id = self.exchange_ids = self.exchange_ids + 1
        exchange.asked = ASKED_ALL
        exchange.head = None
        exchange.body = None
        return exchange

    def ask(self, exchange: Exchange, now_ms: int) -> Verdict:
        """Put the request before the chain."""
        plan = exchange.plan
        on_request = plan.hooks.on_request
        if on_request is None:
            return FORWARD
        try:
            verdict = on_request(exchange, plan.peer, now_ms)
            if verdict is FORWARD or isinstance(verdict, Forward | Respond | Reject):
                return verdict
            raise TypeError(f"{verdict!r} is no verdict")  # noqa: TRY301 - the same bug, the same blame
        except Exception as error:
            raise self.blame(exchange, error, now_ms) from error

    def blame(self, exchange: Exchange, error: Exception, now_ms: int) -> PolicyFault:
        """A policy's bug: the request ends here, and so does the session."""
        self.complete(exchange, Outcome.DISCONNECTED, now_ms)
        return self.engine.chain.blame(exchange.plan.api.key, error)

    def complete(self, exchange: Exchange, outcome: Outcome, now_ms: int) -> None:
        """Tell the policies how an admitted request ended."""
        on_complete = exchange.plan.hooks.on_complete
        if on_complete is not None:
            on_complete(exchange, outcome, now_ms)

    def pace(self, unread: bytes) -> None:
        """Enough for one turn: `unread` waits, counted, and so does whatever the client sends."""
        self.client.keep(unread)
        self.client.mute(Mute.PACED)
        self.paced = self.attention = True

    def resume(self) -> None:
        """The next turn has come; the hub hands over what waits as if it had just been read."""
        self.paced = False
        self.client.unmute(Mute.PACED)

    def flush_requests(self, buf: bytearray, start: int, stop: int) -> None:
        """Set buf[start:stop] aside for the broker, because it cannot go on straight from `buf`."""
        if stop > start >= 0:
            self.broker.put(bytes(memoryview(buf)[start:stop]))

    def flush_replies(self, buf: bytearray, start: int, stop: int) -> None:
        """Set buf[start:stop] aside for the client, because it cannot go on straight from `buf`."""
        if stop > start >= 0:
            self.client.put(bytes(memoryview(buf)[start:stop]))

    def inquire(
        self, frame: bytes, correlation_id: int, on_reply: Callable[[bytes | None], None]
    ) -> None:
        """Ask the broker something of our own, at the next frame boundary.

        `frame` is a whole request; its reply goes to `on_reply` (None if the connection ends first) and
        never to the client.
        """
        question = requests.Question(frame, OwnExchange(correlation_id, on_reply))
        self.questions = [*(self.questions or ()), question]
        self.unusual_requests = True
        if not self.request_left:
            requests.put_questions(self)
            self.engine.attend(self)

    # -- the end ---------------------------------------------------------------------------------

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
        if self.ending and not self.request_left:
            self.client.mute(Mute.ENDING)
            self.attention = True
            if not self.queue:
                self.ended = True

    def drain(self) -> None:
        """The proxy is going down: finish the request that is passing, answer what is in flight."""
        self.end_after_replies(CloseReason.DRAINED)

    def client_gone(self, now_ms: int) -> None:
        """The client has said its last byte (half-close). It may still be reading."""
        if self.request_left and self.request_mode == requests.STREAM:
            self._lose_half_sent(now_ms)
        self.request_left = 0
        self.end_after_replies(CloseReason.CLIENT_CLOSED)
        self.maybe_end()

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
        while self.queue:
            head = self.queue.popleft()
            if isinstance(head, OwnExchange):
                head.on_reply(None)
            elif isinstance(head, AnsweredExchange):
                self.client.pool.release(len(head.reply))
                self.complete(head.exchange, Outcome.DISCONNECTED, now_ms)
            else:
                self.complete(head, Outcome.DISCONNECTED, now_ms)

    def release(self, now_ms: int) -> None:
        """Both sides are closed: give everything back and say goodbye. Called once, by the hub."""
        self.end(CloseReason.CLIENT_CLOSED, "", now_ms)
        self.client.clear()
        self.broker.clear()
        self.plans.clear()  # one of them may refer to this session
        requests.forget(self, now_ms)
        replies.forget(self)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.engine.release(self, now_ms)

    def _lose_half_sent(self, now_ms: int) -> None:
        """The newest request will never be whole, so no reply to it can come."""
        if self.queue and self.walker is None:
            newest = self.queue[-1]
            if isinstance(newest, Exchange):
                self.queue.pop()
                self.complete(newest, Outcome.DISCONNECTED, now_ms)
        self.walker = None
