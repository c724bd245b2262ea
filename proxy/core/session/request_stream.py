"""The general path of requests: those that the fast path (`fast_requests`) did not handle.

Rules:
- A request is judged when its head has arrived: the header, and for Produce the body up to acks.
- An incomplete head is carried over to the next read; its size is bounded, and counted.
- A body streams through (STREAM), is kept whole for a policy or because it is slow (GATHER), or is dropped because the
  request was answered here (DROP). A request that is kept whole takes memory as it arrives, and may wait inside.
- Frame sizes are judged before anything is allocated for them.
- A fault takes nothing from the requests before it (`Session.fail_request`). No more bytes of the request at fault
  are forwarded.
- One turn does a bounded amount of work; then the session is paced, maybe inside a body that is walked: the other
  bytes of the read wait, counted, and the client is not read until its next turn.
- While sessions wait for turns, a read begins no whole request, and completes none that is kept: it waits for a turn
  too. One that is longer than the read begins at once, so that large requests stream without a copy.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from policies.api import FORWARD, Hold, Need, Outcome, Reject, Respond, Throttle
from policies.chain import PolicyFault
from proxy.core.errors import ClientProtocolError, CloseReason
from proxy.core.memory.announced import GATHERS, STREAMS, WAITS
from proxy.core.memory.claim import HEAD_BYTES
from proxy.core.protocol_sniffer import guess_protocol
from proxy.core.session import crowding, mutes, questions, sampling
from proxy.core.session.body_walk import (
    on_fed,
    on_produced,
    on_unread,
    read_head,
    walker_for,
)
from proxy.core.session.channel import ATTENTION, STOPS_PARSING, Settled
from proxy.core.session.exchange import ObservedExchange, Pending
from proxy.core.session.held_request import hold
from proxy.core.session.in_flight import KEPT_BYTES
from proxy.core.session.kept_produce import leave_to_broker, on_sent, on_streamed
from proxy.core.session.link import DROP, GATHER, STREAM
from proxy.core.session.local_replies import as_planned, refuse_unanswered, respond
from proxy.core.session.logins import is_logging_in, keep_login, may_keep_head
from proxy.core.session.naming_exchange import NamingExchange
from proxy.core.session.plan import SASL
from proxy.core.session.plan_book import MIN_FRAME_BYTES
from proxy.core.session.traces import add_stage, on_received, trace_of
from proxy.core.session.whole_judgement import judging
from proxy.core.stats.request_trace import Stage
from proxy.core.turns import LABOUR_BEGUN_BYTES, LABOUR_STEP_BYTES, LABOUR_WALK_BYTES, labour_of
from wire import header
from wire.apis import SIGN_ON
from wire.errors import WireError
from wire.produce import ProduceWalker

if TYPE_CHECKING:
    from policies.api import Verdict
    from proxy.core.session.link import Link

_REQUEST = Struct(">iii").unpack_from
_SIZE = Struct(">i").unpack_from
# A member of an enum is found more slowly.
_BODY: Final = Need.BODY
_HEAD: Final = Need.HEAD
_TOPICS: Final = Need.TOPICS

_NEEDS_NO_BYTES: Final = (Hold, Respond)
"""Written in place, a union of types is made by each call."""
MAX_REFUSED_BYTES = 16 << 20
"""A refused request is kept whole for its reply's sake; a larger one is closed without a reply."""
MAX_HEAD_BYTES = 65536
"""The longest accepted request head (header, transactional id)."""
FETCH_HEAD_BYTES = 64
"""The most bytes after the head that have the other fields of a Fetch that a policy may need."""
_TOO_LONG = f"a request head of more than {MAX_HEAD_BYTES} bytes"


def stream(
    link: Link,
    exchange: ObservedExchange,
    throttle: Throttle | None,
    buf: bytearray,
    pos: int,
    end: int,
    now_ms: int,
) -> int:
    """Begin to stream a request that may pass, of which buf[pos:end] is here; return the offset after its bytes."""
    whole = 4 + exchange.size_bytes
    body_at = pos + exchange.plan.body_at
    if throttle is not None:
        link.request_left = whole  # so that the mute begins after it
        mutes.throttle_request(link, exchange, throttle.throttle_time_ms, now_ms, throttle.why)
    pos = _begin_stream(link, exchange, whole, pos, body_at, now_ms)
    return pass_on(link, buf, pos, end, now_ms)


def pass_on(link: Link, buf: bytearray, start: int, end: int, now_ms: int) -> int:
    """Pass on what buf[start:end] has of the request that streams; complete it with its last byte.

    Return the offset after its bytes. If they are fewer than are here, the walk has taken its steps: see `take`.
    """
    taken = min(end - start, link.request_left)
    if link.walker is not None:
        taken = _walk(link, link.walker, buf, start, taken, now_ms)
    link.request_left -= taken
    if not link.request_left:
        link.walker = None
        _on_through(link)
        link.passing = link.judged = None
    return start + taken


def lose_half_sent(link: Link, now_ms: int) -> None:
    """Complete the newest request, which the client will never finish, so that no reply to it can come."""
    passing, queue = link.passing, link.queue
    if passing is not None and queue and queue[-1] is passing:
        queue.pop()
        link.complete(passing, Outcome.DISCONNECTED, now_ms)
    link.passing = link.walker = None
    link.request_left = 0


def forget(link: Link, now_ms: int) -> None:
    """Discard a kept or pending request, because the session ends."""
    drop_kept(link)
    pending, link.pending = link.pending, None
    verdict = None if pending is None else pending.verdict
    if pending is not None and verdict is not None and not isinstance(verdict, PolicyFault):
        link.complete(pending.exchange, Outcome.DISCONNECTED, now_ms)  # it was judged
    link.request_left = 0


def drop_kept(link: Link) -> None:
    """Release the memory of a request that is kept whole, or waits for memory."""
    link.gathered = link.judgement = None
    link.leave_memory()


def complete_judged(link: Link, now_ms: int) -> None:
    """Complete the request that was judged last, because a fault prevented its verdict from being applied."""
    judged, link.judged = link.judged, None
    if judged is not None:
        link.complete(judged, Outcome.DISCONNECTED, now_ms, forwarded=False)


# -- the general path ------------------------------------------------------------------------------


def take(link: Link, buf: bytearray, settled: Settled, end: int, now_ms: int) -> int:
    """Take buf[settled.stop:end]. Returns as `from_client` does; if it raises, `settled` may be forwarded."""
    start, pos = settled.start, settled.stop  # buf[settled.start:pos] is forwarded as it is
    max_labour_bytes = link.shared.turns.labour_bytes
    labour_bytes = LABOUR_BEGUN_BYTES if link.request_left and not max_labour_bytes else 0
    if link.walker is not None:  # `pass_on` has taken so many steps in this read
        labour_bytes += link.shared.turns.walk_steps * LABOUR_STEP_BYTES
    _go_on(link, now_ms)
    while pos < end and link.judgement is None:
        if link.request_left:
            if _must_wait(link, labour_bytes, max_labour_bytes, end - pos):
                link.pace(bytes(memoryview(buf)[pos:end]))
                break
            taken, cost_bytes = _take_body(link, buf, settled, pos, end, now_ms)
            pos += taken
            labour_bytes += cost_bytes
            continue
        settled.stop = pos
        _on_boundary(link, buf, settled)
        if link.client.muted & STOPS_PARSING:
            link.client.keep(bytes(memoryview(buf)[pos:end]))
            break
        if link.ending and link.pending is None:
            link.give_back_claim()
            link.broker.put_slice(buf, settled.start, pos)
            settled.start = pos = end
            break
        # While others wait for turns, a request begins only if its end is not in this read.
        is_whole = end - pos >= 4 and 4 + _SIZE(buf, pos)[0] <= end - pos
        is_late = labour_bytes >= max_labour_bytes and (max_labour_bytes or is_whole)
        if is_late and not _holds_next(link):
            link.pace(bytes(memoryview(buf)[pos:end]))
            break
        begun = _begin(link, buf, pos, end, now_ms)
        if begun is None or link.held is not None:
            if not (link.pending or link.client.muted & STOPS_PARSING):  # its head is incomplete
                _keep_head(link, end - pos, now_ms)
            link.client.keep(bytes(memoryview(buf)[pos:end]))
            break
        if link.request_mode != GATHER:
            link.give_back_claim()  # it is no longer kept whole
        pos = begun
        labour_bytes += labour_of(link.request_left, streams=link.request_mode == STREAM)
    settled.stop = pos
    if link.judgement is not None:
        link.pace(bytes(memoryview(buf)[pos:end]))
        mutes.look_again(link)  # the next turn begins here, with or without bytes
    _on_read_over(link, buf, settled, now_ms)
    if link.take_uses_outboxes() or settled.start != start:
        link.broker.put_slice(buf, settled.start, pos)
        return ATTENTION
    return pos


def _go_on(link: Link, now_ms: int) -> None:
    """Resume a request that was kept whole, and held or judged in part: its wait is over."""
    pending = link.pending
    if pending is None:
        return
    if link.judgement is None and (link.request_left or link.client.muted & STOPS_PARSING):
        return  # a mute is for the requests after one that is judged in part
    if isinstance(pending.verdict, PolicyFault):
        raise pending.verdict
    if link.gathered is not None:
        _take_up(link, pending.exchange)
        _settle_whole(link, now_ms)


def _on_boundary(link: Link, buf: bytearray, settled: Settled) -> None:
    """Send requests of our own, and begin mutes: no request is half sent at `settled.stop`."""
    if link.questions is not None:
        link.broker.put_slice(buf, settled.start, settled.stop)
        settled.start = settled.stop
        questions.put(link)
    if link.wanted:
        mutes.on_request_boundary(link)


def _on_read_over(link: Link, buf: bytearray, settled: Settled, now_ms: int) -> None:
    """End a read: between two requests, or inside one."""
    if not link.request_left:
        _on_boundary(link, buf, settled)
        mutes.look_again(link)
        if link.ending:
            link.maybe_end()
        if link.is_between_requests:
            link.passing = link.judged = None
    elif link.request_mode == GATHER:
        claim = link.claim
        if claim.is_counted:  # all but SASL requests
            link.shared.reservations.extend(claim, len(link.gathered or b""))
        claim.arm_timer(now_ms)


def _holds_next(link: Link) -> bool:
    """Return whether the next request is to be held: at once, because its key may be woken before the next turn."""
    return link.pending is not None and isinstance(link.pending.verdict, Hold)


def _must_wait(link: Link, labour_bytes: int, max_labour_bytes: int, here_bytes: int) -> bool:
    """Return whether the next `here_bytes` of the passing request wait for a turn, because they cost much."""
    if link.walker is not None:
        return labour_bytes >= max(max_labour_bytes, LABOUR_WALK_BYTES)
    return link.request_mode == GATHER and not max_labour_bytes and here_bytes >= link.request_left


def _take_body(
    link: Link, buf: bytearray, settled: Settled, pos: int, end: int, now_ms: int
) -> tuple[int, int]:
    """Take bytes of the passing request from buf[pos:end]; return how many, and their cost as labour."""
    taken, cost_bytes = min(link.request_left, end - pos), 0
    mode = link.request_mode
    if mode == STREAM:
        walker = link.walker
        if walker is not None:
            steps = walker.steps
            taken = _walk(link, walker, buf, pos, taken, now_ms)
            cost_bytes = (walker.steps - steps) * LABOUR_STEP_BYTES
    else:
        link.broker.put_slice(buf, settled.start, pos)
        settled.start = pos + taken
        if mode == GATHER:
            _gather(link, buf, pos, settled.start)
    link.request_left -= taken
    if not link.request_left:
        link.walker = None
        link.request_mode = STREAM
        if mode == GATHER:
            if link.pending is not None:
                on_received(link.shared, link.pending.exchange)
            _settle_whole(link, now_ms)
        elif mode == STREAM:
            _on_through(link)
    return taken, cost_bytes


def _on_through(link: Link) -> None:
    """Report a streamed request, because its last byte was forwarded; it may have been answered already."""
    passing, entries = link.passing, link.queue.entries
    if link.known_claim is not None:
        link.give_back_announced()
    if passing is not None and entries and entries[-1] is passing:
        on_received(link.shared, passing)


def _keep_head(link: Link, here_bytes: int, now_ms: int) -> None:
    """Reserve memory for a long incomplete head, and watch its time. Raises ClientProtocolError over the limit."""
    if here_bytes > MAX_HEAD_BYTES + FETCH_HEAD_BYTES:
        raise ClientProtocolError(_TOO_LONG)
    if here_bytes > HEAD_BYTES and may_keep_head(link, here_bytes):
        link.claim.arm_head_timer(now_ms)


def _on_arrived(link: Link, exchange: ObservedExchange) -> None:
    """Count a request of the general path whose head has arrived."""
    shared, usage, plan = link.shared, link.usage, exchange.plan
    size_bytes = exchange.size_bytes
    shared.newcomers.on_request(link, shared.now_ms)
    usage.requests += 1
    usage.request_bytes += 4 + size_bytes
    if plan.is_special:
        if plan.api.key in SIGN_ON:
            if plan.is_sign_on:
                usage.mark_exempt(size_bytes)
            link.plans.on_sign_on(plan)
            if link.sasl is not None:
                link.sasl.on_sign_on(plan.api.key)
        else:
            trace = trace_of(shared, exchange)
            if trace is not None:
                trace.audited = True
    if link.samples:
        sampling.on_arrived(link, exchange)


# -- one request -----------------------------------------------------------------------------------


def _begin(link: Link, buf: bytearray, pos: int, end: int, now_ms: int) -> int | None:
    """Begin the request at `pos`; return the offset from which its other bytes are handled.

    None: its head is incomplete, or there is no memory for it. Sets `left` and the mode.
    """
    if link.pending is not None:  # the fast loop has asked already, or it was held
        return _begin_judged(link, buf, link.pending, pos, end, now_ms)
    if end - pos < 4:
        return None
    (size,) = _SIZE(buf, pos)
    max_bytes = link.shared.request_max_bytes
    if not MIN_FRAME_BYTES <= size <= max_bytes:
        hint = guess_protocol(bytes(memoryview(buf)[pos : min(end, pos + 8)]))
        expected = f"is outside {MIN_FRAME_BYTES}..{max_bytes}"
        raise ClientProtocolError(f"frame size {size} {expected}{hint}")
    if end - pos < 12:
        return None
    stop = pos + 4 + size
    limit = min(stop, end)
    found = link.plans.find(buf, pos, limit, size)
    if found is None:
        if stop <= end:
            raise ClientProtocolError("the request head is longer than its frame")
        return None
    plan, body_at = found
    if 12 + len(plan.prefix) > MAX_HEAD_BYTES:
        raise ClientProtocolError(_TOO_LONG)
    link.give_back_head()
    link.shared.unauthenticated.give_back(link)
    hooks = plan.hooks
    kind = NamingExchange if hooks.need is _TOPICS else ObservedExchange
    exchange = kind(plan, _REQUEST(buf, pos)[2], size, link.shared.now_us, link.next_exchange_id())
    if hooks.need >= _BODY or plan.api.key in SASL:
        begun = _keep_whole(link, Pending(exchange, None), pos, end)
        if begun is not None:
            _on_arrived(link, exchange)
            link.usage.defer(size)  # until the policies are asked
        return begun
    if hooks.need is _HEAD and not read_head(link.shared, exchange, buf, body_at, limit):
        if stop <= end:
            raise ClientProtocolError("the request body is shorter than its fields")
        # Its plan is known now, so the fast path may take it, which asks for no newcomer.
        link.shared.newcomers.on_request(link, link.shared.now_ms)
        return None
    _on_arrived(link, exchange)
    verdict = link.ask(exchange, now_ms)
    return _apply(link, exchange, verdict, pos, body_at, end, now_ms)


def _begin_judged(
    link: Link, buf: bytearray, judged: Pending, pos: int, end: int, now_ms: int
) -> int | None:
    link.pending = None
    mutes.look_again(link)
    exchange, verdict = judged
    _take_up(link, exchange)
    assert not isinstance(verdict, PolicyFault)  # noqa: S101 - `take` has looked
    body_at = pos
    if exchange.head is not None or exchange.plan.keeps_partitions or exchange.plan.counts_produced:
        api = exchange.plan.api
        body_at = header.body_at(buf, pos, end, api.request_header_version) or pos
    return _apply(link, exchange, verdict, pos, body_at, end, now_ms)


def _take_up(link: Link, exchange: ObservedExchange) -> None:
    """Begin a request that was held. Time since the end of its wait counts as a throttle, if there was one."""
    now_us, free_us = link.shared.now_us, exchange.arrived_us
    if now_us != free_us:
        if mutes.was_throttled_after(link, free_us):
            add_stage(link.shared, exchange, Stage("throttle", free_us, now_us))
        exchange.wait_until(now_us)


def _apply(
    link: Link,
    exchange: ObservedExchange,
    verdict: Verdict | None,
    pos: int,
    body_at: int,
    end: int,
    now_ms: int,
) -> int | None:
    """Apply a verdict before the first byte of the request is forwarded. None: it has to wait for memory."""
    shared = link.shared
    whole = 4 + exchange.size_bytes
    verdict = as_planned(exchange.plan, verdict)
    ends = verdict.forward if isinstance(verdict, Throttle) else verdict
    too_large = isinstance(ends, Reject) and whole > min(
        MAX_REFUSED_BYTES, shared.request_pool.max_single_bytes
    )
    needs_whole = isinstance(ends, Hold) and exchange.plan.hooks.need >= Need.BODY
    begins = STREAMS
    announces = ends is FORWARD and whole > shared.announced.small_bytes and pos + whole > end
    if announces:
        begins = shared.announced.begin(link.claim, exchange.exchange_id, whole, end - pos)
        if begins == WAITS:
            link.resume_later(exchange, verdict)
            return None
    if (
        needs_whole
        or begins == GATHERS
        or not (ends is FORWARD or too_large or isinstance(ends, _NEEDS_NO_BYTES))
    ):
        # A slow body, patches, a new body, an error reply that echoes it, or a policy that needs it again.
        begun = _keep_whole(link, Pending(exchange, ends), pos, end)
        if begun is None:
            link.resume_later(exchange, verdict)
        elif ends is not verdict and isinstance(verdict, Throttle):
            mutes.throttle_request(link, exchange, verdict.throttle_time_ms, now_ms)
        return begun
    if announces:
        _on_granted(link, exchange)
    if isinstance(verdict, Throttle):  # the mute begins after it
        link.request_left, link.request_mode = whole, STREAM if ends is FORWARD else DROP
        mutes.throttle_request(link, exchange, verdict.throttle_time_ms, now_ms, verdict.why)
        verdict = verdict.forward
    if verdict is FORWARD:
        return _begin_stream(link, exchange, whole, pos, body_at, now_ms)
    if isinstance(verdict, Hold):
        link.request_left = 0
        hold(link, exchange, verdict, now_ms)
    elif isinstance(verdict, Respond):
        link.request_left, link.request_mode = whole, DROP
        respond(link, exchange, verdict, now_ms)
    else:
        assert isinstance(verdict, Reject)  # noqa: S101 - all else is dealt with above
        link.request_left, link.request_mode = whole, DROP
        refuse_unanswered(link, exchange, verdict, now_ms)
    return pos


def _begin_stream(
    link: Link, exchange: ObservedExchange, whole: int, pos: int, body_at: int, now_ms: int
) -> int:
    """Begin to stream the request; return the offset from which its bytes are streamed."""
    on_sent(exchange, now_ms)
    plan = exchange.plan
    if plan.silent:
        link.complete(exchange, Outcome.NO_REPLY, now_ms)
    else:
        link.queue.entries.append(exchange)
    link.request_mode = STREAM
    if plan.keeps_partitions or plan.counts_produced:
        if not isinstance(exchange.head, ProduceWalker):
            exchange.head = walker_for(link.shared, exchange)
        if plan.keeps_partitions:
            exchange.kept = exchange.head
    link.passing = None if plan.silent else exchange
    if isinstance(exchange.head, ProduceWalker):
        link.walker = exchange.head
        link.request_left = whole - (body_at - pos)
        return body_at
    link.request_left = whole
    return pos


def _on_granted(link: Link, exchange: ObservedExchange) -> None:
    """Add a memory stage to the request's trace if it had to wait for memory."""
    since_us = link.claim.take_short_since_us()
    if since_us:
        exchange.arrived_us = min(exchange.arrived_us, since_us)
        exchange.began_us = min(exchange.began_us, since_us)
        now_us = link.shared.now_us
        add_stage(link.shared, exchange, Stage("memory", since_us, now_us))
        exchange.wait_until(now_us)


# -- a request that is walked ----------------------------------------------------------------------


def _walk(
    link: Link, walker: ProduceWalker, buf: bytearray, pos: int, size_bytes: int, now_ms: int
) -> int:
    """Walk a Produce that streams; return how many of `size_bytes` are taken.

    Fewer are taken after MAX_WALK_STEPS (FEW_WALK_STEPS). Policies that asked for its head cannot do without it.
    Without such a policy the rest of a body that cannot be read passes unread.
    """
    stop = pos + size_bytes
    passing = link.passing
    try:
        stop = walker.feed(buf, pos, stop, link.shared.turns.walk_steps)
        if link.shared.topic_usage is not None:
            on_fed(link.shared, link.peer.user, walker)
    except WireError:
        if passing is None or passing.plan.hooks.need is not Need.HEADER:
            raise
        leave_to_broker(passing)
        link.walker = None
        on_unread(link.shared)
    if link.walker is not None and stop - pos == link.request_left:
        _on_walked(link, walker, now_ms)
    return stop - pos


def _on_walked(link: Link, walker: ProduceWalker, now_ms: int) -> None:
    """Report a walked Produce whose last byte is about to be forwarded."""
    passing = link.passing
    if link.shared.topic_usage is not None:
        on_produced(link.shared, link.peer.user, walker)
    if not walker.done:
        if passing is None or passing.plan.hooks.need is not Need.HEADER:
            raise ClientProtocolError("the Produce body ends inside a field")
        leave_to_broker(passing)
    elif passing is not None:
        on_streamed(passing, walker, now_ms)
        if len(walker.packed) > KEPT_BYTES:
            crowding.on_kept(link, passing)


# -- a request that is kept whole ------------------------------------------------------------------


def _keep_whole(link: Link, pending: Pending, pos: int, end: int) -> int | None:
    """Keep the frame in buf[pos:end] whole; None: it has to wait for memory. Logins (`logins`) do not."""
    exchange = pending.exchange
    shared = link.shared
    whole = 4 + exchange.size_bytes
    if not is_logging_in(link, exchange):
        max_bytes = shared.request_pool.max_single_bytes
        if whole > max_bytes:
            if pending.verdict is not None:
                link.complete(exchange, Outcome.DISCONNECTED, shared.now_ms, forwarded=False)
            link.request_left, link.request_mode = whole, DROP
            why = f"request size {whole} exceeds {max_bytes} bytes of buffer"
            link.end_after_replies(CloseReason.POLICY, why)
            return pos
        if not shared.reservations.reserve(link.claim, whole, min(whole, end - pos)):
            return None
        _on_granted(link, exchange)
    link.claim.begin(shared.now_ms)
    link.pending = pending
    link.request_left, link.request_mode = whole, GATHER
    return pos


def _gather(link: Link, buf: bytearray, start: int, stop: int) -> None:
    if link.gathered is None:
        link.gathered = bytearray()
    link.gathered += memoryview(buf)[start:stop]
    claim = link.claim
    if not claim.is_counted:
        keep_login(link, stop - start)
    elif len(link.gathered) > claim.reserved_bytes:
        link.shared.reservations.top_up(claim, len(link.gathered))


def _settle_whole(link: Link, now_ms: int) -> None:
    """Ask the policies about a request that was kept whole (if not asked yet), and apply the verdict.

    A large one takes several turns: it is kept, and pending, between them.
    """
    frame, link.gathered = link.gathered, None
    pending, link.pending = link.pending, None
    assert frame is not None and pending is not None  # noqa: S101, PT018 - GATHER sets both
    work, link.judgement = link.judgement, None
    if work is None:
        link.shared.unauthenticated.give_back(link)
        work = judging(link, frame, pending, now_ms)
    try:
        pending = next(work)
    except StopIteration as over:
        if over.value:  # a policy holds it
            link.gathered = frame
        return
    link.gathered, link.pending, link.judgement = frame, pending, work
