"""One client and its broker: takes the bytes of both, returns which to forward, and has no socket.

The seam to the event loop is made of integers:

    stop = session.from_client(buf, start, end, now_ms)     # send buf[start:stop] on to the broker
    stop = session.from_broker(buf, start, end, now_ms)     # ... to the client

Usually `stop` is the whole result. If bytes were withheld or made here, or the session was muted or ended, the
result is ATTENTION: then nothing may be sent from `buf`; all bytes to send are in the channels' outboxes, and
the event loop sends them. The bytes after `end` are old, but look valid: never read them.

Rules:
- Here are the fast loops: whole, usual, untouched frames. A frame that is not whole in this read, or
  not usual in any way, goes to a RequestStream / ReplyStream before anything is decided about it.
- Nothing is made per frame but one Exchange, and nothing looked up but one Plan.
- Settled bytes are forwarded even if a later frame fails: a fault takes nothing from the frames before it.
- Conditions that are nearly always false are checked once per read, not once per frame (`unusual`).
- Parts (`requests`, `replies`, `mutes`, `waits`, `claim`, `in_flight`, `held`) are made when they are needed. They see
  the session as an `Owner`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import EXEMPT, FORWARD, Outcome, Throttle
from policies.chain import ASKED_ALL
from policies.verdicts import check_request
from proxy.core.errors import CloseReason
from proxy.core.session import frame_heads
from proxy.core.session.body_walk import on_fetched_whole
from proxy.core.session.channel import ATTENTION, Mute
from proxy.core.session.exchange import (
    Exchange,
    InsertedRequest,
    ObservedExchange,
    ProxyExchange,
    observed,
)
from proxy.core.session.in_flight import CROWDED, InFlight
from proxy.core.session.kept_produce import MAX_KEPT_BYTES, keep, keep_named
from proxy.core.session.local_replies import on_reply
from proxy.core.session.naming_exchange import NamingExchange
from proxy.core.session.parts import SessionParts
from proxy.core.session.plan import ACKS_NONE
from proxy.core.session.policy_calls import mark_exempt
from proxy.core.session.read_in_place import (
    MAX_FRAME_BYTES,
    MAX_STEP_BYTES,
    leave_read,
    pass_read,
    show_in_place,
)
from proxy.core.session.reply_stream import ReplyStream, count_reply
from proxy.core.session.request_stream import RequestStream
from proxy.core.session.settled import Settled
from proxy.core.stats.histogram import BUCKET
from proxy.core.turns import TURN_LABOUR_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.session.plan import Plan


_new_exchange = Exchange.__new__
_new_observed = ObservedExchange.__new__

MAX_KEEP_STEPS = 4096
"""Topics, partitions and tagged fields of Produce requests that the fast loop visits in one read. A read
cannot hold so many partitions with a record batch in each."""


class Session(SessionParts):
    """One client and its broker. The event loop calls from_client, from_broker, resume, drain, client_gone,
    client_lost, broker_gone, end, crash and release.
    """

    __slots__ = ("on_released", "opened_ms", "route")

    on_released: Callable[[Session, int], None]
    """Called once, when both sides are closed."""
    route: tuple[str, int] | None
    """The broker address that was dialled; None before that."""
    opened_ms: int

    # -- the two directions --------------------------------------------------------------------

    def from_client(self, buf: bytearray, start: int, end: int, now_ms: int) -> int:
        """Take buf[start:end] from the client. Returns `stop` or ATTENTION, see the module."""
        pos = begun = start
        count = 0
        asked: ObservedExchange | None = None  # the request that a policy is judging at this moment
        gated: Plan | None = None  # of the request that a gate is judging at this moment
        queue = self.queue.entries
        try:
            requests = self.requests
            if requests is not None and requests.is_plain:
                pos = start + requests.pass_on(end - start)
                if requests.left:
                    return end
                self.requests = requests = None
            mutes = self.mutes
            unusual = False
            if mutes is not None:
                if mutes.is_deferred:
                    mutes.begin_deferred(now_ms)
                unusual = mutes.unusual
            if requests is None and not unusual:
                plans = self.plans.by_kind
                push, new, in_c = queue.append, _new_exchange, frame_heads.IN_C
                now_us = self.shared.now_us
                begun, keep_steps, last = pos, MAX_KEEP_STEPS, end - 12
                while pos <= last:
                    size, kind, correlation_id = frame_heads.request_at(buf, pos)
                    plan = plans.get(kind)
                    stop = pos + 4 + size
                    if (
                        plan is None
                        or stop > end
                        or not plan.min_bytes <= size <= plan.max_bytes
                        or not frame_heads.has_prefix(buf, plan.prefix, pos + 12)
                    ):
                        break
                    kept: bytearray | bytes | None = None
                    if plan.keeps:
                        if size < MAX_KEPT_BYTES:
                            kept = frame_heads.copy(buf, pos, stop) if in_c else buf[pos:stop]
                        elif not plan.names:  # with them, it is packed when they are read
                            kept, keep_steps = keep(plan, buf, pos, stop, keep_steps)
                            if keep_steps < 0:
                                break  # too much for one read: the general path reads on in turns
                            if keep_steps != MAX_KEEP_STEPS:
                                self._uncounted = CROWDED
                    passes = plan.simple
                    if not passes and plan.gate is not None:
                        gated = plan
                        passes = plan.gate(size, now_ms) is True
                        gated = None
                    if passes:
                        exchange = Exchange.__new__(Exchange) if in_c else new(Exchange)
                        exchange.plan = plan
                        exchange.correlation_id = correlation_id
                        exchange.arrived_us = now_us
                        exchange.size_bytes = size
                        exchange.kept = kept
                        push(exchange)
                        pos = stop
                        count += 1
                        continue
                    reads = plan.reads
                    if not (plan.fast or (reads and self._may_read(size))):
                        break
                    exchange_type = NamingExchange if plan.names else ObservedExchange
                    observed_exchange = _new_observed(
                        exchange_type
                    )  # its __init__ is too slow here
                    observed_exchange.plan = plan
                    observed_exchange.correlation_id = correlation_id
                    observed_exchange.arrived_us = observed_exchange.began_us = now_us
                    observed_exchange.arrived_ms = now_ms
                    observed_exchange.size_bytes = size
                    observed_exchange.exchange_id = number = self.exchange_ids + 1
                    observed_exchange.asked = ASKED_ALL
                    observed_exchange.head = observed_exchange.held = None
                    observed_exchange.trace = observed_exchange.seen = None
                    observed_exchange.result = None
                    observed_exchange.delayed = False
                    observed_exchange.throttle_until_ms = 0
                    if not reads:
                        observed_exchange.body = None
                    elif not show_in_place(self.shared, observed_exchange, buf, pos, stop):
                        break
                    elif kept is None and plan.keeps:
                        kept = keep_named(observed_exchange)
                        if kept is None:
                            break
                        self._uncounted = CROWDED
                    self.exchange_ids = number
                    observed_exchange.kept = kept
                    on_request = plan.on_request
                    if on_request is not None:
                        asked = observed_exchange
                        verdict = on_request(observed_exchange, plan.peer, now_ms)
                        if verdict is EXEMPT:
                            mark_exempt(observed_exchange)
                        elif verdict is not FORWARD:
                            check_request(verdict)
                            if not isinstance(verdict, Throttle) or verdict.forward is not FORWARD:
                                verdict = self.calls.without_exemption(observed_exchange, verdict)
                            if isinstance(verdict, Throttle) and verdict.forward is FORWARD:
                                mutes = self.mutes or self._mutes_now()
                                time_ms, why = verdict.throttle_time_ms, verdict.why
                                if stop != end or not mutes.try_defer(
                                    observed_exchange, time_ms, now_ms, why
                                ):
                                    mutes.throttle_request(observed_exchange, time_ms, now_ms, why)
                            elif verdict is not FORWARD:
                                asked = None
                                if reads:
                                    leave_read(observed_exchange)
                                self._resume(observed_exchange, verdict)
                                self.usage.requests += 1
                                self.usage.request_bytes += 4 + size
                                break
                        asked = None
                    if reads:
                        pass_read(observed_exchange, buf, pos)
                    if plan.acks == ACKS_NONE:
                        self.unanswered_ms = now_ms
                        self.calls.complete(observed_exchange, Outcome.NO_REPLY, now_ms)
                    else:
                        push(observed_exchange)
                    pos = stop
                    count += 1
                    if self.client.muted:
                        unusual = pos != end  # it was not before: only bytes after the mute are
                        break
                if count:
                    usage = self.usage
                    usage.requests += count
                    usage.request_bytes += pos - begun
                    if self.samples:
                        self.sample_left -= count
                        if self.sample_left <= 0:
                            self._sample_newest()
        except BaseException as fault:
            if asked is not None:  # it was a policy that raised: see `policies.hook_runner`
                count += 1
                begun -= 4 + asked.size_bytes
                fault = self.calls.blame(asked, fault, now_ms)
            elif gated is not None:
                number = self.next_exchange_id()
                asked = ObservedExchange(gated, correlation_id, size, self.shared.now_us, number)
                count += 1
                begun -= 4 + size
                fault = self.calls.blame(asked, fault, now_ms, "gate")
            if not isinstance(fault, Exception):
                raise
            self.usage.requests += count
            self.usage.request_bytes += pos - begun
            pos = self._fault_at_request(fault, buf, Settled(start, pos))
        else:
            if unusual or pos != end or self.attention:
                settled = Settled(start, pos)
                requests = self.requests
                if requests is None:
                    requests = self.requests = RequestStream(self)
                try:
                    pos = requests.rest(buf, settled, end, now_ms)
                except Exception as fault:  # noqa: BLE001 - it costs this session only
                    pos = self._fault_at_request(fault, buf, settled)
                else:
                    if requests.is_at_rest:
                        self.requests = None
        if queue:
            waits = self.waits
            if waits is None or waits.at_ms > now_ms + self.plans.shortest_wait_ms:
                self._waits_now().watch(now_ms)
            if len(queue) > self._uncounted:
                self._count_in_flight()
        return pos

    def from_broker(self, buf: bytearray, start: int, end: int, now_ms: int) -> int:
        """Take buf[start:end] from the broker. Returns `stop` or ATTENTION, see the module."""
        pos = begun = start
        self.replied_ms = self.node.heard_ms = now_ms
        queue, entries = self.queue, self.queue.entries
        try:
            replies = self.replies
            if not queue.unusual:
                if replies is not None and replies.is_plain:
                    pos = begun = start + replies.pass_on(end - start, now_ms)
                    if replies.left:
                        return end
                    self.replies = replies = None
                if replies is None:
                    now_us, buckets, last = self.shared.now_us, BUCKET, end - 8
                    while pos <= last and entries:
                        size, correlation_id = frame_heads.reply_at(buf, pos)
                        exchange: Exchange = entries[0]  # type: ignore[assignment] # others are unusual
                        stop = pos + 4 + size
                        if correlation_id != exchange.correlation_id or stop > end or size < 4:
                            break
                        plan = exchange.plan
                        if not plan.plain:
                            glance = plan.glance
                            if glance is None:
                                if not self._passes(exchange, buf, pos, stop, now_ms):
                                    break
                                del entries[0]
                                pos = stop
                                continue
                            if not glance.matches(buf, pos, stop):
                                break
                        took_us = now_us - exchange.arrived_us
                        if took_us < plan.fine_us:
                            plan.upstream[buckets[took_us]] += 1
                            tally = plan.tally
                            if tally is not None:
                                tally.request_bytes += 4 + exchange.size_bytes
                                tally.response_bytes += 4 + size
                        else:
                            exchange = count_reply(self.shared, exchange, size)
                            if isinstance(exchange, ObservedExchange):
                                self.calls.complete_replied(exchange, now_ms)
                        del entries[0]
                        pos = stop
                    self.usage.response_bytes += pos - begun
        except Exception as fault:  # noqa: BLE001 - any fault costs this session only
            self.usage.response_bytes += pos - begun
            return self._fault_at_reply(fault, buf, Settled(start, pos))
        if pos != end or self.attention:
            settled = Settled(start, pos)
            if replies is None:
                replies = self.replies = ReplyStream(self)
            try:
                pos = replies.rest(buf, settled, end, now_ms)
            except Exception as fault:  # noqa: BLE001 - as above
                return self._fault_at_reply(fault, buf, settled)
            if not replies.left:
                self.replies = None
        if self.in_flight is not None:
            self.in_flight.on_replies()
            self._set_threshold()
        return pos

    def _may_read(self, size: int) -> bool:
        """Return whether a request of this size may be judged in the read now; if so, count its bytes."""
        shared, claim = self.shared, self._claim
        turns = shared.turns
        if (
            size > MAX_FRAME_BYTES
            # sessions wait for turns, or memory: the general path lets this one wait, too
            or turns.labour_bytes != TURN_LABOUR_BYTES
            or shared.reservations.is_contended
            or (claim is not None and claim.is_for_next)
        ):
            return False
        if turns.in_place_us != shared.now_us:  # a new step
            turns.in_place_us, turns.in_place_bytes = shared.now_us, MAX_STEP_BYTES
        left = turns.in_place_bytes - size - 4
        if left < 0:
            return False
        turns.in_place_bytes = left
        return True

    def _passes(self, exchange: Exchange, buf: bytearray, pos: int, stop: int, now_ms: int) -> bool:
        """Return whether a watched reply, whole in buf[pos:stop], is forwarded unchanged; if so, complete it."""
        plan = exchange.plan
        if plan.rewrite is not None:
            look = plan.look
            if look is None or not look.matches(buf, pos, stop):
                return False
        size = stop - pos - 4
        if isinstance(exchange, ObservedExchange):
            on_reply(self, exchange, size, buf, pos, stop, now_ms)
        if plan.topics:
            on_fetched_whole(self.shared, exchange, buf, pos, stop)
        exchange = count_reply(self.shared, exchange, size)
        self.calls.complete_replied(exchange, now_ms)
        return True

    def _fault_at_request(self, fault: Exception, buf: bytearray, settled: Settled) -> int:
        self.broker.put_slice(buf, settled.start, settled.stop)
        self._ending_now().fail_request(self, fault)
        return ATTENTION

    def _fault_at_reply(self, fault: Exception, buf: bytearray, settled: Settled) -> int:
        self.client.put_slice(buf, settled.start, settled.stop)
        self.fail(fault, CloseReason.BROKER_PROTOCOL)
        return ATTENTION

    def resample(self, every: int) -> None:
        """Sample one request in `every` from now on; 0: none."""
        self.samples = every != 0
        self.sample_left = self.shared.sample_from() if every else 0

    def _sample_newest(self) -> None:
        """Sample the newest request in the queue."""
        newest = self.queue[-1] if self.queue else None
        if isinstance(newest, Exchange) and self.shared.keeps_traces:
            sampled = observed(newest)
            self.queue.replace_newest(sampled)
            self._sample(sampled)

    def _count_in_flight(self) -> None:
        """Count the requests in flight after a read that exceeds the threshold."""
        if self.in_flight is None:
            self.in_flight = InFlight(self)
            self.queue.deepen()
        self.in_flight.on_requests()
        self._set_threshold()

    # -- turns -----------------------------------------------------------------------------------

    def resume(self) -> None:
        """Begin the next turn; the event loop passes the waiting bytes to `from_client` as if just read."""
        self.client.unmute(Mute.PACED)

    def on_turn_over(self) -> None:
        """End a turn. If the session had it because memory was free, the next waiting session gets its turn."""
        if self._claim is not None:
            self.shared.reservations.heard(self._claim)

    # -- questions of our own ----------------------------------------------------------------------

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
        self._mutes_now().look_again()
        if not self.request_left:
            self.put_questions()
            self.attend()

    @property
    def is_at_rest(self) -> bool:
        """Whether no request has begun, no reply is due, and neither side is muted or has unsent bytes."""
        return self._is_settled and not self.client.carry

    def is_idle(self, since_ms: int) -> bool:
        """Return whether neither side has sent anything since `since_ms`, and nothing is due to either.

        Bytes of a request that has not begun do not count.
        """
        mutes = self.mutes
        return (
            self.replied_ms <= since_ms
            and self.unanswered_ms <= since_ms
            and self._is_settled
            and (mutes is None or mutes.throttled_until_ms <= since_ms)
        )

    @property
    def _is_settled(self) -> bool:
        client, broker = self.client, self.broker
        return (
            self.handle is not None
            and self.requests is None
            and self.replies is None
            and not (self.queue or self.questions)
            and not (client.muted or broker.muted or client.outbox or broker.outbox)
        )

    # -- how it ends --------------------------------------------------------------------------------

    def drain(self) -> None:
        """End because the proxy shuts down: finish the request that is passing, answer those in flight."""
        self._ending_now().drain(self, self.shared.now_ms)

    def client_gone(self, now_ms: int) -> None:
        """End after the replies: the client has closed its sending side (half-close), and may still be reading."""
        self._ending_now().on_client_gone(self, now_ms)

    def client_hung_up(self, now_ms: int) -> None:
        """Drop the held request of a client that has closed its side while it was muted."""
        if self.held is not None:
            self._ending_now().on_client_hung_up(self, self.held, now_ms)

    def client_lost(
        self, now_ms: int, reason: CloseReason = CloseReason.CLIENT_RESET, detail: str = ""
    ) -> None:
        """End because the client's connection broke; its unsent replies are discarded."""
        self.client.clear()
        self.end(reason, detail, now_ms)

    def broker_gone(self, reason: CloseReason, now_ms: int, detail: str = "") -> None:
        """End because the broker's connection is closed. Replies that were received are still delivered."""
        self._ending_now().on_broker_gone(self, reason, detail, now_ms)

    def fail_request_and_attend(self, fault: Exception) -> None:
        """End because of a fault at the request that begins or is passing, outside of its own reads."""
        self._ending_now().fail_request(self, fault)
        self.attend()

    def crash(self, fault: Exception) -> None:
        """End after an exception that no other handler has caught, even if ending raises too."""
        self._ending_now().crash(self, fault)

    def release(self, now_ms: int) -> None:
        """Release all memory and timers, because both sides are closed. The event loop calls it once."""
        self.end(CloseReason.CLIENT_CLOSED, "", now_ms)
        self.count_muted_time(self.client.muted, -1)
        self.client.clear()
        self.broker.clear()
        self.forget_requests(now_ms)
        self.forget_replies()
        self.upstream_closed()
        self.forget_in_flight()
        if self.sasl is not None:
            self.sasl.release(now_ms)
        for part in (self.mutes, self.waits, self._claim, self.plans):
            if part is not None:
                part.release()
        self.on_released(self, now_ms)
        # the parts refer to the session
        self.requests = self.replies = self.mutes = self.waits = self._claim = self.sasl = None
        self.broker.watcher = None
