"""The general path of replies: those that the fast loop of `Session.from_broker` did not handle.

A reply that streams needs nothing but slots of Link: what is left of it, its size, and what reads along (`begin`,
`pass_on`, `finish`). One that is kept, walked or discarded has a ReplyStream until its last byte.

Rules:
- A reply belongs to the oldest exchange of its session; any other correlation id ends both sides.
- A reply with broker addresses (or API ranges) is rewritten in place if they are in its first part, and that is here
  (`lead`). Else it is kept, counted and rewritten: the part that has them, or all of it (`kept_replies`). One whose
  body a policy hears is kept whole. All other replies stream.
- While policies take a reply in turns (`hearing`), nothing is read of the broker; what was read behind it is kept.
- A Fetch may name brokers after its records. It streams all the same, and only its last tags are kept, if it has any:
  its size has left by then, so they are rewritten to as many bytes (`wire.node_endpoints.fitted`).
- A fault (in the broker's bytes, or in what a policy says of them) takes nothing from the replies before it: they
  are delivered. Later replies cannot be, because replies leave in order, so the session ends at once.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from proxy.core.errors import BrokerProtocolError
from proxy.core.protocol_sniffer import guess_protocol
from proxy.core.session import broker_waits, paths
from proxy.core.session.body_walk import feed_reply, maybe_names_walker, on_walked
from proxy.core.session.channel import ATTENTION, Mute, Settled
from proxy.core.session.exchange import (
    MAX_PROXY_REPLY_BYTES,
    Exchange,
    ObservedExchange,
    ProxyExchange,
    SwallowedExchange,
    observed,
)
from proxy.core.session.kept_replies import (
    INSPECTED_COPIES,
    KeptReply,
    how_kept,
    is_kept,
    is_stamped,
    rewritten,
)
from proxy.core.session.lead import LEFT_ALONE, Lead
from proxy.core.session.local_replies import hearing, on_reply, send_answers
from proxy.core.session.reply_walk import begin_walk, read_along
from proxy.core.session.traces import trace_of
from proxy.core.stats.histogram import BUCKET, bucket_of
from wire.node_endpoints import fitted

if TYPE_CHECKING:
    from collections.abc import Generator

    from proxy.core.session.link import Link
    from proxy.core.session.plan import Plan
    from proxy.core.session.shared_state import SharedState
    from wire.fetch_topics import FetchTopics
    from wire.topic_names import TopicNames

_REPLY = Struct(">ii").unpack_from
_ANSWERED = (Exchange, SwallowedExchange, ProxyExchange)
"""Written in place, a union of types is made by each call."""
HEARD_AT_ONCE_BYTES = 16 << 10
"""A larger reply is kept for policies that hear it, as they may take it in turns."""
HEAD_BYTES = 64
"""Enough of a reply to find its first field: header, a tag section, throttle_time_ms."""


def begin(link: Link, plan: Plan, size: int, buf: bytearray, pos: int, end: int) -> int:
    """Begin a reply of `size` bytes after the four that say so, of which buf[pos:end] is here.

    It streams. Return the offset after the bytes that pass.
    """
    link.reply_bytes = size
    if plan.walks_tail:
        begin_walk(link, plan)
        end = pos + read_along(link, buf, pos, end - pos, 4 + size)
    link.reply_left = 4 + size - (end - pos)
    if plan.counts_fetched:
        link.reply_topics = plan.topics
        plan.topics.begin(buf, pos, end)  # type: ignore[union-attr] # it counts them
    return end


def pass_on(link: Link, buf: bytearray, start: int, end: int, now_ms: int) -> int:
    """Return how many bytes of buf[start:end] are those of the reply that streams; finish it with its last byte.

    They are fewer than it has here if the tags that follow may name brokers: those are for `ReplyStream`.
    """
    taken = min(end - start, link.reply_left)
    if link.reply_walk is not None:
        taken = read_along(link, buf, start, taken, link.reply_left)
    link.reply_left -= taken
    topics = link.reply_topics
    if topics is not None:
        topics.follow(buf, start, start + taken)
        if not link.reply_left:
            link.reply_topics = None
            topics.end()
    if not link.reply_left:
        finish(link, now_ms)
    return taken


def finish(link: Link, now_ms: int) -> None:
    """Complete the exchange at the head, and send the replies made here that waited for it."""
    link.reply_walk = None
    queue, buckets = link.queue, BUCKET
    if not queue.diverted:
        # No reply made here waits for this one, no late reply was discarded, and the session does not end.
        exchange: Exchange = queue.entries[0]  # type: ignore[assignment] # others count as diverted
        del queue.entries[0]
        plan = exchange.plan
        took_us = link.shared.now_us - exchange.arrived_us
        if plan.reply_path != paths.HEARD and took_us < plan.fine_us:
            plan.upstream[buckets[took_us]] += 1  # as in `fast_replies`
            if plan.tally is not None:
                plan.tally.count_bytes(4 + exchange.size_bytes, 4 + link.reply_bytes)
            link.usage.response_bytes += 4 + link.reply_bytes
        else:
            _complete(link, exchange, now_ms)
        return
    head = queue.pop_head()
    if isinstance(head, SwallowedExchange):
        broker_waits.on_late_reply(link)
    elif isinstance(head, Exchange):
        broker_waits.on_answer(link, head)
        _complete(link, head, now_ms)
    send_answers(link, 0, now_ms)
    if link.ending:
        link.maybe_end()


def _complete(link: Link, exchange: Exchange, now_ms: int) -> None:
    link.usage.response_bytes += 4 + link.reply_bytes
    exchange = count_reply(link.shared, exchange, link.reply_bytes)
    if isinstance(exchange, ObservedExchange):
        link.calls.complete_replied(exchange, now_ms)


class ReplyStream:
    """The reply that passes, unless it only streams."""

    __slots__ = ("_dropped", "_heard", "_hearing", "_keeps_tail", "_kept", "_link", "_walker")

    def __init__(self, link: Link) -> None:
        self._link = link
        self._kept: KeptReply | None = None
        self._keeps_tail = False  # and only its last tags
        # Reads along for the usage rows.
        self._walker: FetchTopics | TopicNames | None = None
        if link.reply_topics is not None:
            self._walker = link.reply_topics.take_walker()
            link.reply_topics = None
        self._dropped = False  # it belongs to a request that was answered here
        self._hearing: Generator[None, None, bytearray | None] | None = None
        self._heard = bytearray()  # the frame that it is about

    @property
    def is_over(self) -> bool:
        """Whether no reply is here, or the bytes of this one are forwarded as they arrive."""
        if self._hearing is not None:
            return False
        is_plain = self._kept is None and self._walker is None and not self._dropped
        return is_plain or not self._link.reply_left

    def release(self) -> None:
        """Release the memory of a kept reply, because the session ends."""
        kept, self._kept = self._kept, None
        hearing, self._hearing = self._hearing, None
        if hearing is not None:
            hearing.close()
        if kept is not None:
            kept.drop()

    # -- the general path ------------------------------------------------------------------------

    def take(self, buf: bytearray, settled: Settled, end: int, now_ms: int) -> int:
        """Take buf[settled.stop:end]. Returns as `from_broker` does; if it raises, `settled` may be forwarded."""
        link = self._link
        start, pos = settled.start, settled.stop  # buf[settled.start:pos] is forwarded as it is
        if self._hearing is not None and self._has_heard():
            finish(link, now_ms)
        while pos < end:
            if self._hearing is not None:
                link.broker.keep(bytes(memoryview(buf)[pos:end]))
                break
            if link.reply_left:
                pos = self._take_body(buf, settled, pos, end, now_ms)
                continue
            if end - pos < 8:
                link.broker.keep(bytes(memoryview(buf)[pos:end]))
                break
            size, correlation_id = _REPLY(buf, pos)
            stop = pos + 4 + size
            exchange = self._expected(buf, pos, size, correlation_id)
            link.reply_bytes = size
            is_led = False
            if isinstance(exchange, Exchange) and isinstance(exchange.plan.lead, Lead):
                is_led = self._rewrite_lead(exchange, exchange.plan.lead, buf, settled, pos, end)
                if is_led:
                    pos = settled.stop
            if isinstance(exchange, SwallowedExchange):
                link.client.put_slice(buf, settled.start, pos)
                settled.start = pos
                link.reply_left, self._dropped = 4 + size, True
                continue
            if stop > end or (size > HEARD_AT_ONCE_BYTES and not is_led and _is_heard(exchange)):
                if not self._begin(exchange, buf, pos, end, now_ms, is_led=is_led):
                    break
                continue
            if isinstance(exchange, ProxyExchange):
                link.client.put_slice(buf, settled.start, pos)
                settled.start = stop
                exchange.on_reply(bytes(memoryview(buf)[pos:stop]))
                link.uses_outboxes = True
            else:
                changed = self._settle_in_place(exchange, buf, pos, stop, now_ms, is_led=is_led)
                if changed is not None:
                    link.client.put_slice(buf, settled.start, pos)
                    settled.start = stop
                    link.client.put(changed)
                    link.uses_outboxes = True
            settled.stop = pos = stop
            if link.queue.diverted and settled.start != pos:
                link.client.put_slice(buf, settled.start, pos)
                settled.start = pos
            finish(link, now_ms)
        if link.take_uses_outboxes() or settled.start != start:
            link.client.put_slice(buf, settled.start, pos)
            return ATTENTION
        return pos

    def _rewrite_lead(
        self,
        exchange: Exchange,
        lead: Lead,
        buf: bytearray,
        settled: Settled,
        pos: int,
        end: int,
    ) -> bool:
        """Rewrite the first part of the reply at `pos` in place; return whether it begins at `settled.stop` now.

        It is left alone if its topics' names are read, too, or its head may have to wait for the next read.
        """
        link = self._link
        stop = pos + 4 + link.reply_bytes
        if link.shared.rewrites.wants_topic_names or (stop > end and is_stamped(exchange)):
            return False
        if settled.start != pos:
            link.client.put_slice(buf, settled.start, pos)  # it may be overwritten
            settled.start = settled.stop = pos
        begin = lead.in_place(buf, pos, min(stop, end))
        if begin == LEFT_ALONE:
            return False
        settled.start = settled.stop = begin
        link.reply_bytes = stop - begin - 4
        return True

    def _begin(
        self,
        exchange: Exchange | ProxyExchange,
        buf: bytearray,
        pos: int,
        end: int,
        now_ms: int,
        *,
        is_led: bool,
    ) -> bool:
        """Begin a reply that is not whole in this read. Return False if its head is incomplete, too.

        `is_led`: its first part is rewritten already, and it may pass as it is.
        """
        link = self._link
        size = link.reply_bytes
        if isinstance(exchange, ProxyExchange) and size > MAX_PROXY_REPLY_BYTES:
            expected = f"expected at most {MAX_PROXY_REPLY_BYTES}"
            raise BrokerProtocolError(f"a reply of {size} bytes to Sluice itself, {expected}")
        if isinstance(exchange, ObservedExchange) and exchange.plan.streamed is not None:
            max_bytes = link.shared.reply_reservations.max_bytes // INSPECTED_COPIES
            if size > max_bytes:
                link.calls.pass_uninspected(exchange, size, max_bytes)
        if isinstance(exchange, ProxyExchange) or (not is_led and is_kept(exchange)):
            leads, copies = how_kept(exchange)
            self._kept = KeptReply(link, size, leads=leads, copies=copies)
        elif end - pos < HEAD_BYTES and is_stamped(exchange):
            link.broker.keep(bytes(memoryview(buf)[pos:end]))
            return False
        else:
            self._hear(exchange, buf, pos, end, now_ms)
            if exchange.plan.counts_fetched:
                self._walker = exchange.plan.topics.walker()  # type: ignore[union-attr] # as above
            if exchange.plan.walks_tail:
                begin_walk(link, exchange.plan)
        link.reply_left = 4 + link.reply_bytes
        return True

    def _take_body(self, buf: bytearray, settled: Settled, pos: int, end: int, now_ms: int) -> int:
        """Take the bytes of the passing reply from buf[pos:end]; return the offset after them."""
        link, client = self._link, self._link.client
        taken = min(link.reply_left, end - pos)
        head = link.queue[0]
        if self._walker is not None and isinstance(head, Exchange):
            feed_reply(head, self._walker, buf, pos, pos + taken)
        if link.reply_walk is not None and self._kept is None:
            passes = read_along(link, buf, pos, taken, link.reply_left)
            if passes != taken:
                self._keep_tail(link.reply_left - passes)
                pos += passes
                taken -= passes
                link.reply_left -= passes
        kept = self._kept
        if kept is not None:
            client.put_slice(buf, settled.start, pos)
            settled.start = pos + taken
            kept.add(memoryview(buf)[pos : settled.start])
        elif self._dropped:
            settled.start = pos + taken
        pos += taken
        link.reply_left -= taken
        if kept is not None and kept.leads:
            self._settle_lead(kept, now_ms)
        if not link.reply_left:
            self._dropped = False
            walker, self._walker = self._walker, None
            if walker is not None and isinstance(head, Exchange):
                on_walked(link.shared, head, walker)
            settled.stop = pos
            if link.queue.diverted:
                client.put_slice(buf, settled.start, pos)
                settled.start = pos
            if self._kept is not None and self._keeps_tail:
                self._settle_tail(self._kept)
            elif self._kept is not None:
                self._settle_whole(self._kept, now_ms)
            if self._hearing is None:
                finish(link, now_ms)
        return pos

    def _settle_in_place(
        self, exchange: Exchange, buf: bytearray, pos: int, stop: int, now_ms: int, *, is_led: bool
    ) -> bytearray | None:
        """Return the reply that is whole in buf[pos:stop], rewritten; None: it is forwarded as it is. Report it."""
        link, plan = self._link, exchange.plan
        if plan.counts_fetched:
            plan.topics.fetched(buf, pos, stop)  # type: ignore[union-attr] # as above
        changed = None
        if plan.rewrite is not None and not is_led:
            changed = rewritten(exchange, plan.rewrite, buf, pos, stop)
        if changed is None:
            changed = self._hear(exchange, buf, pos, stop, now_ms)
        else:
            link.reply_bytes = len(changed) - 4
            changed = self._hear(exchange, changed, 0, len(changed), now_ms) or changed
        return changed

    def _settle_whole(self, kept: KeptReply, now_ms: int) -> None:
        """Rewrite a reply that was kept whole, or pass it to its ProxyExchange."""
        link, frame = self._link, kept.frame
        head = link.queue[0]
        if _is_heard(head):
            assert isinstance(head, ObservedExchange)  # noqa: S101 - others are not heard
            if head.plan.counts_fetched:
                head.plan.topics.fetched(frame, 0, len(frame))  # type: ignore[union-attr] # as above
            if head.plan.rewrite is not None:
                changed = rewritten(head, head.plan.rewrite, frame, 0, len(frame), spend=True)
                frame = frame if changed is None else changed
                link.reply_bytes = len(frame) - 4
            self._heard = frame
            self._hearing = hearing(link, head, len(frame) - 4, frame, 0, len(frame), now_ms)
            self._has_heard()
            return
        self._kept = None
        counted_bytes = kept.take()
        try:
            if isinstance(head, ProxyExchange):
                head.on_reply(bytes(frame))
                frame.clear()
            elif isinstance(head, Exchange):
                if head.plan.counts_fetched:
                    head.plan.topics.fetched(frame, 0, len(frame))  # type: ignore[union-attr] # as above
                if head.plan.rewrite is not None:
                    changed = rewritten(head, head.plan.rewrite, frame, 0, len(frame), spend=True)
                    frame = frame if changed is None else changed
                    link.reply_bytes = len(frame) - 4
                frame = self._hear(head, frame, 0, len(frame), now_ms) or frame
        except Exception:
            link.client.pool.release(counted_bytes)
            raise
        link.client.put(frame, counted_bytes)
        link.uses_outboxes = True

    def _has_heard(self) -> bool:
        """Let the policies go on with the kept reply. Return whether they have heard it: then it is sent."""
        link, frame = self._link, self._heard
        try:
            next(self._hearing)  # type: ignore[arg-type] # the caller has looked
        except StopIteration as end:
            if end.value is not None:
                frame = end.value
                link.reply_bytes = len(frame) - 4
        else:
            link.broker.mute(Mute.HEARING)
            link.ask_for_turn()
            return False
        self._hearing, self._heard = None, bytearray()
        kept, self._kept = self._kept, None
        link.broker.unmute(Mute.HEARING)
        link.client.put(frame, kept.take())  # type: ignore[union-attr] # it is kept until now
        link.uses_outboxes = True
        return True

    def _keep_tail(self, size_bytes: int) -> KeptReply:
        """Keep the last tags of the reply, which have so many bytes."""
        self._kept = kept = KeptReply(self._link, size_bytes - 4, leads=False, copies=2)
        self._keeps_tail = True
        return kept

    def _settle_tail(self, kept: KeptReply) -> None:
        """Rewrite the last tags of a reply, which are whole."""
        link = self._link
        self._kept, self._keeps_tail = None, False
        counted_bytes = kept.take()
        try:
            tags = fitted(bytes(kept.frame), link.shared.topology.advertise)
        except Exception:
            link.client.pool.release(counted_bytes)
            raise
        link.client.put(bytearray(tags), counted_bytes)
        link.uses_outboxes = True

    def _settle_lead(self, kept: KeptReply, now_ms: int) -> None:
        """Rewrite the first part of a reply if it is complete; the rest of the reply then streams."""
        link = self._link
        head = link.queue[0]
        assert isinstance(head, Exchange)  # noqa: S101 - only such replies lead
        lead = kept.maybe_lead(head, link.reply_bytes, link.reply_left)
        if lead is None:
            return
        link.reply_bytes = int.from_bytes(lead[:4], "big")
        self._hear(head, lead, 0, len(lead), now_ms)
        self._kept = None
        counted_bytes = kept.take()
        self._walker = maybe_names_walker(link.shared, head, kept.frame)
        if head.plan.counts_fetched and self._walker is None:
            self._walker = head.plan.topics.walker()  # type: ignore[union-attr] # as above
            if self._walker is not None:
                self._walker.feed(kept.frame, 0, len(kept.frame))
        if head.plan.walks_tail:
            begin_walk(link, head.plan)
            here_bytes = len(kept.frame)
            left_bytes = here_bytes + link.reply_left
            passes = read_along(link, kept.frame, 0, here_bytes, left_bytes)
            if passes != here_bytes:
                self._keep_tail(left_bytes - passes).add(memoryview(kept.frame)[passes:])
                del lead[passes - here_bytes :]
        link.client.put(lead, counted_bytes)
        link.uses_outboxes = True

    def _hear(
        self, exchange: Exchange, buf: bytearray, pos: int, end: int, now_ms: int
    ) -> bytearray | None:
        """Tell the policies. Return the frame to send instead, if one has replaced the body; else None."""
        if not isinstance(exchange, ObservedExchange):
            return None
        link = self._link
        changed = on_reply(link, exchange, link.reply_bytes, buf, pos, end, now_ms)
        if changed is not None:
            link.reply_bytes = len(changed) - 4
        return changed

    def _expected(
        self, buf: bytearray, pos: int, size: int, correlation_id: int
    ) -> Exchange | SwallowedExchange | ProxyExchange:
        """Return the exchange this reply belongs to. Raises BrokerProtocolError if it belongs to none."""
        queue = self._link.queue
        head = queue[0] if queue else None
        if size >= 4 and isinstance(head, _ANSWERED):
            if head.correlation_id == correlation_id:
                return head
            expected = f"correlation id {head.correlation_id} was due"
        else:
            expected = "no reply was due" if head is None else "that is no size"
        hint = guess_protocol(bytes(memoryview(buf)[pos : pos + 8]))
        raise BrokerProtocolError(
            f"a reply of {size} bytes with correlation id {correlation_id}; {expected}{hint}"
        )


def _is_heard(exchange: object) -> bool:
    """Return whether policies hear the body of the reply to this exchange."""
    return isinstance(exchange, ObservedExchange) and exchange.plan.streamed is not None


def count_reply(shared: SharedState, exchange: Exchange, size_bytes: int) -> Exchange:
    """Count a reply of the broker. Return the exchange; an ObservedExchange with a trace if the reply was slow."""
    plan = exchange.plan
    took_us = shared.now_us - exchange.arrived_us
    plan.upstream[bucket_of(took_us)] += 1
    if plan.tally is not None:
        plan.tally.count_bytes(4 + exchange.size_bytes, 4 + size_bytes)
    if took_us >= plan.slow_us and shared.keeps_traces:
        exchange = observed(exchange)
        trace = trace_of(shared, exchange)
        if trace is not None:
            trace.slow = True
    if exchange.trace is not None:
        exchange.trace.reply_bytes = size_bytes
    if exchange.seen is not None:
        exchange.seen.reply_bytes = size_bytes
    return exchange
