"""One client, one broker, and everything between them: bytes in, decisions out, no socket.

The seam to the event loop is made of integers:

    stop = session.from_client(buf, start, end, now_ms)     # send buf[start:stop] on to the broker
    stop = session.from_broker(buf, start, end, now_ms)     # ... to the client

In the ordinary case that is the whole answer. When anything else has happened (something withheld, made
here, muted, ended) the answer is ATTENTION: then nothing is to be sent from `buf`, what goes out
stands in the channels' outboxes, and the event loop settles it. After `end` lie old bytes that look valid:
never look there.

Rules:
- Here are the fast loops: whole, usual, untouched frames. A frame that is not whole in this read, or
  not usual in any way, goes to `requests.rest` / `replies.rest` before anything is decided about it.
- Nothing is made per frame but one Exchange, and nothing looked up but one Plan.
- What is settled goes on, whatever comes behind it: a fault takes nothing from the frames before it.
- What is nearly always false is asked once per read, not once per frame (`unusual`).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from policies.api import EXEMPT, FORWARD, Outcome, Throttle
from policies.chain import ASKED_ALL
from policies.verdicts import check_request
from proxy.core.errors import CloseReason
from proxy.core.session import in_flight, reply_stream, request_stream
from proxy.core.session.broker_waits import MAX_KEPT_BYTES, keep
from proxy.core.session.channel import ATTENTION
from proxy.core.session.deadlines import watch
from proxy.core.session.ending import SessionEnd
from proxy.core.session.exchange import Exchange, InsertedRequest, ProxyExchange
from proxy.core.session.plan import ACKS_NONE
from proxy.core.session.state import STREAM, Pending, Settled
from proxy.core.stats.histogram import BUCKET

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

_REQUEST = Struct(">iii").unpack_from  # size, api_key << 16 | api_version, correlation_id
_REPLY = Struct(">ii").unpack_from  # size, correlation_id
_new_exchange = Exchange.__new__

KEEP_STEPS_MAX = 4096
"""Topics, partitions and tagged fields of Produce requests that the fast loop visits in one read. A read
cannot hold so many partitions with a record batch in each."""


class Session(SessionEnd):
    """See the module. The event loop's doors: from_client, from_broker, client_gone, broker_gone, drain, release."""

    __slots__ = ()

    # -- the two directions --------------------------------------------------------------------

    def from_client(self, buf: bytearray, start: int, end: int, now_ms: int) -> int:
        """Take buf[start:end] from the client. See the module for what comes back."""
        pos = begun = start
        count = 0
        asked: Exchange | None = None  # the request that a policy is judging at this moment
        unusual = self.unusual_requests
        try:
            left = self.request_left
            if left and self.request_mode == STREAM and self.walker is None:
                if end - start < left:
                    self.request_left = left - (end - start)
                    return end
                pos = start + left
                self.request_left = left = 0
                self.through()
                unusual = self.unusual_requests
            if not (left or unusual):
                plans = self.plans
                push = self.queue.append
                now_us = self.engine.now_us
                begun, keep_steps = pos, KEEP_STEPS_MAX
                while end - pos >= 12:
                    size, kind, correlation_id = _REQUEST(buf, pos)
                    plan = plans.get(kind)
                    stop = pos + 4 + size
                    if (
                        plan is None
                        or stop > end
                        or not plan.min_bytes <= size <= plan.max_bytes
                        or not buf.startswith(plan.usual, pos + 12)
                    ):
                        break
                    if plan.simple:
                        exchange = _new_exchange(Exchange)
                        exchange.plan = plan
                        exchange.correlation_id = correlation_id
                        exchange.arrived_us = now_us
                        exchange.size_bytes = size
                        if plan.keeps:
                            if size < MAX_KEPT_BYTES:
                                exchange.kept = buf[pos:stop]
                            else:
                                keep_steps = keep(exchange, buf, pos, stop, keep_steps)
                                if keep_steps < 0:
                                    break  # too much for one read: the general path reads on in turns
                                if keep_steps != KEEP_STEPS_MAX:
                                    in_flight.keeps_more(self)
                    elif plan.fast:
                        exchange = _new_exchange(
                            Exchange
                        )  # as `admit` does: a call is too slow here
                        exchange.plan = plan
                        exchange.correlation_id = correlation_id
                        exchange.arrived_us = now_us
                        exchange.size_bytes = size
                        exchange.exchange_id = self.exchange_ids = self.exchange_ids + 1
                        exchange.asked = ASKED_ALL
                        exchange.head = exchange.body = exchange.held = None
                        exchange.trail = exchange.seen = None
                        exchange.delayed = False
                        exchange.throttle_until_ms = 0
                        if plan.keeps:
                            if size < MAX_KEPT_BYTES:
                                exchange.kept = buf[pos:stop]
                            else:
                                keep_steps = keep(exchange, buf, pos, stop, keep_steps)
                                if keep_steps < 0:
                                    break  # too much for one read: the general path reads on in turns
                                if keep_steps != KEEP_STEPS_MAX:
                                    in_flight.keeps_more(self)
                        on_request = plan.on_request
                        if on_request is not None:
                            asked = exchange
                            verdict = on_request(exchange, plan.peer, now_ms)
                            if verdict is EXEMPT:
                                self.mark_exempt(exchange)
                            elif verdict is not FORWARD:
                                check_request(verdict)
                                verdict = self.without_exemption(exchange, verdict)
                                if (
                                    not isinstance(verdict, Throttle)
                                    or verdict.forward is not FORWARD
                                ):
                                    asked = None
                                    self.pending = Pending(exchange, verdict)
                                    self.usage.requests += 1
                                    self.usage.request_bytes += 4 + size
                                    break
                                self.quiet(exchange, verdict.throttle_time_ms, now_ms, verdict.why)
                            asked = None
                        if plan.acks == ACKS_NONE:
                            self.complete(exchange, Outcome.NO_REPLY, now_ms)
                        else:
                            push(exchange)
                        pos = stop
                        count += 1
                        if self.client.muted:
                            unusual = (
                                pos != end
                            )  # it was not before: only bytes behind the mute are
                            break
                        continue
                    else:
                        break
                    push(exchange)
                    pos = stop
                    count += 1
                if count:
                    usage = self.usage
                    usage.requests += count
                    usage.request_bytes += pos - begun
                    if self.samples:
                        self.sample_left -= count
                        if self.sample_left <= 0:
                            self.sample()
        except BaseException as fault:
            if asked is not None:  # it was a policy that raised: see `policies.hook_runner`
                count += 1
                begun -= 4 + asked.size_bytes
                fault = self.blame(asked, fault, now_ms)
            if not isinstance(fault, Exception):
                raise
            self.usage.requests += count
            self.usage.request_bytes += pos - begun
            pos = self._fault_at_request(fault, buf, Settled(start, pos))
        else:
            if unusual or pos != end or self.attention:
                settled = Settled(start, pos)
                try:
                    pos = request_stream.rest(self, buf, settled, end, now_ms)
                except Exception as fault:  # noqa: BLE001 - it costs this session only
                    pos = self._fault_at_request(fault, buf, settled)
        if self.queue:
            timer = self.timer
            if timer is None or timer.at_ms > now_ms + self.shortest_wait_ms:
                watch(self, now_ms)
            if len(self.queue) > self.uncounted:
                in_flight.count(self)
        return pos

    def from_broker(self, buf: bytearray, start: int, end: int, now_ms: int) -> int:
        """Take buf[start:end] from the broker. See the module for what comes back."""
        pos = begun = start
        self.replied_ms = self.node.heard_ms = now_ms
        try:
            plain = not self.unusual_replies and self.reply_gathered is None
            if plain and self.reply_walker is None:
                left = self.reply_left
                if left:
                    if end - start < left:
                        self.reply_left = left - (end - start)
                        return end
                    pos = begun = start + left
                    self.reply_left = 0
                    reply_stream.finish(self, now_ms)
                queue: deque[Exchange] = self.queue  # type: ignore[assignment] # others are unusual
                now_us = self.engine.now_us
                while end - pos >= 8 and queue:
                    size, correlation_id = _REPLY(buf, pos)
                    exchange = queue[0]
                    stop = pos + 4 + size
                    if correlation_id != exchange.correlation_id or stop > end or size < 4:
                        break
                    plan = exchange.plan
                    if not plan.plain:
                        glance = plan.glance
                        if glance is None:
                            if not reply_stream.passes(self, exchange, buf, pos, stop, now_ms):
                                break
                            queue.popleft()
                            pos = stop
                            continue
                        if not glance(buf, pos, stop):
                            break
                    took_us = now_us - exchange.arrived_us
                    if took_us < plan.fine_us:
                        plan.upstream[BUCKET[took_us]] += 1
                        tally = plan.tally
                        if tally is not None:
                            tally.request_bytes += 4 + exchange.size_bytes
                            tally.response_bytes += 4 + size
                    else:
                        reply_stream.late(self, exchange, size, now_ms)
                    queue.popleft()
                    pos = stop
                self.usage.response_bytes += pos - begun
        except Exception as fault:  # noqa: BLE001 - whatever it is, it costs this session only
            self.usage.response_bytes += pos - begun
            return self._fault_at_reply(fault, buf, Settled(start, pos))
        if pos != end or self.attention:
            settled = Settled(start, pos)
            try:
                pos = reply_stream.rest(self, buf, settled, end, now_ms)
            except Exception as fault:  # noqa: BLE001 - as above
                return self._fault_at_reply(fault, buf, settled)
        if self.in_flight is not None:
            in_flight.give_back(self)
        return pos

    def _fault_at_request(self, fault: Exception, buf: bytearray, settled: Settled) -> int:
        self.flush_requests(buf, settled.start, settled.stop)
        self.fail_request(fault)
        return ATTENTION

    def _fault_at_reply(self, fault: Exception, buf: bytearray, settled: Settled) -> int:
        self.flush_replies(buf, settled.start, settled.stop)
        self.fail(fault, CloseReason.BROKER_PROTOCOL)
        return ATTENTION

    def inquire(
        self, frame: bytes, correlation_id: int, on_reply: Callable[[bytes | None], None]
    ) -> None:
        """Ask the broker something of our own, at the next frame boundary.

        `frame` is a whole request; its reply goes to `on_reply` (None if the connection ends first) and
        never to the client.
        """
        if self.ending:  # a request may be cut; nothing may follow it
            on_reply(None)
            return
        question = InsertedRequest(frame, ProxyExchange(correlation_id, on_reply))
        self.questions = [*(self.questions or ()), question]
        self.unusual_requests = True
        if not self.request_left:
            request_stream.put_questions(self)
            self.engine.attend(self)
