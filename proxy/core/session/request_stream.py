"""The general path of requests: whatever the fast loop of `Session.from_client` did not settle.

Rules:
- Nothing is decided about a request before its head is here: header, and for Produce as far as acks.
- A head that is not whole is carried to the next read; it is bounded, and counted.
- A body streams through (STREAM), is kept whole for whoever asked (GATHER), or is dropped because the
  request was answered here (DROP). What is kept whole waits until there is memory for all of it.
- Frame sizes are judged before anything is allocated for them.
- A fault takes nothing from the requests before it (`SessionEnd.fail_request`). Of the request at fault no byte goes
  on but those that went on in earlier reads.
- One turn does a bounded amount of work; then the session is paced, maybe inside a body that is walked: the rest of
  what was read waits, counted, and the client is not read until it had its next turn.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from policies.api import FORWARD, Forward, Hold, Need, Outcome, Reject, Respond, Throttle
from policies.chain import PolicyFault
from proxy.core.errors import ClientProtocolError, CloseReason
from proxy.core.memory.slow_clients import HEAD_BYTES, watch, watch_head
from proxy.core.protocol_sniffer import guess_protocol
from proxy.core.session.body_walk import produced_whole, read_head, walker_for
from proxy.core.session.broker_waits import keep, lose, sent, walk
from proxy.core.session.buffered_request import body_at as whole_body_at
from proxy.core.session.buffered_request import changed, observe_sasl, wait_anew
from proxy.core.session.channel import ATTENTION, STOPS_PARSING
from proxy.core.session.held_request import hold
from proxy.core.session.in_flight import count_kept
from proxy.core.session.local_replies import answer, refuse, respond
from proxy.core.session.plan import SASL, plan_for
from proxy.core.session.state import DROP, GATHER, STREAM, Pending
from wire import header, produce
from wire.apis import ApiKey

if TYPE_CHECKING:
    from policies.api import Verdict
    from proxy.core.session.ending import SessionEnd
    from proxy.core.session.exchange import Exchange
    from proxy.core.session.state import Settled

_REQUEST = Struct(">iii").unpack_from
_SIZE = Struct(">i").unpack_from

MIN_FRAME_BYTES = 10
"""Key, version, correlation id and a null client id: nothing shorter is a request."""
MAX_LABOUR_BYTES = 8192
"""Bytes of requests taken the long way in one turn; what else was read waits for the next turn, so
that nobody's odd frames hold up everybody (about a microsecond a byte; kept ones count four times)."""
LABOUR_FRAME_BYTES = 4096
LABOUR_STREAMED_BYTES = 256
LABOUR_KEPT_BYTES = 512
"""A frame costs at least one of the last two, so that a turn takes about 1 ms; one that streams at most the first."""
MAX_REFUSED_BYTES = 16 << 20
"""A refused request is kept whole for its reply's sake; a larger one is closed without a reply."""
MAX_HEAD_BYTES = 65536
"""A head (header, transactional id) longer than this is nobody's."""
FETCH_HEAD_BYTES = 64
"""The other fields of a Fetch that a policy may want to see stand in so many bytes behind the head."""
_TOO_LONG = f"a request head of more than {MAX_HEAD_BYTES} bytes"


def rest(s: SessionEnd, buf: bytearray, settled: Settled, end: int, now_ms: int) -> int:
    """Take buf[settled.stop:end]. Returns as `from_client` does; when it raises, `settled` is what may go on."""
    start, pos = settled.start, settled.stop  # buf[settled.start:pos] goes on as it lies
    labour_bytes = 0
    if s.pending is not None and not (s.request_left or s.client.muted & STOPS_PARSING):
        if isinstance(s.pending.verdict, PolicyFault):
            raise s.pending.verdict
        if s.request_gathered is not None:  # it was held, and may go on
            s.taken_up(s.pending.exchange)
            _settle_whole(s, now_ms)
    while pos < end:
        if s.request_left:
            taken = min(s.request_left, end - pos)
            mode = s.request_mode
            if mode == STREAM:
                if s.walker is not None:
                    if labour_bytes >= MAX_LABOUR_BYTES:
                        s.pace(bytes(memoryview(buf)[pos:end]))
                        break
                    taken, cost_bytes = walk(s, s.walker, buf, pos, taken, now_ms)
                    labour_bytes += cost_bytes
            else:
                s.flush_requests(buf, settled.start, pos)
                settled.start = pos + taken
                if mode == GATHER:
                    _gather(s, buf, pos, settled.start)
            pos += taken
            s.request_left -= taken
            if not s.request_left:
                s.walker = None
                s.request_mode = STREAM
                if mode == GATHER:
                    if s.pending is not None:
                        s.received(s.pending.exchange)
                    _settle_whole(s, now_ms)
                elif mode == STREAM:
                    s.through()
            continue
        settled.stop = pos
        if s.questions:
            s.flush_requests(buf, settled.start, pos)
            settled.start = pos
            put_questions(s)
        if s.mute_wanted:
            _mute_now(s)
        if s.client.muted & STOPS_PARSING:
            s.client.keep(bytes(memoryview(buf)[pos:end]))
            break
        if s.ending and s.pending is None:
            s.engine.reservations.give_back(s)
            s.flush_requests(buf, settled.start, pos)
            settled.start = pos = end
            break
        if labour_bytes >= MAX_LABOUR_BYTES:
            s.pace(bytes(memoryview(buf)[pos:end]))
            break
        begun = _begin(s, buf, pos, end, now_ms)
        if begun is None or s.held is not None:
            if not s.client.muted & STOPS_PARSING:  # its head is not here yet
                if end - pos > MAX_HEAD_BYTES + FETCH_HEAD_BYTES:
                    raise ClientProtocolError(_TOO_LONG)
                if end - pos > HEAD_BYTES and s.engine.reservations.reserve_head(s):
                    watch_head(s, now_ms)
            s.client.keep(bytes(memoryview(buf)[pos:end]))
            break
        if s.reserved_bytes and s.request_mode != GATHER:
            s.engine.reservations.give_back(s)  # nobody wants it whole any more
        pos = begun
        streams = s.request_mode == STREAM
        if streams:
            labour_bytes += LABOUR_STREAMED_BYTES + min(s.request_left, LABOUR_FRAME_BYTES)
        else:
            labour_bytes += LABOUR_KEPT_BYTES + 4 * s.request_left
    settled.stop = pos
    if not s.request_left:
        if s.questions:
            s.flush_requests(buf, settled.start, pos)
            settled.start = pos
            put_questions(s)
        if s.mute_wanted:
            _mute_now(s)
        if s.unusual_requests:
            s.look_again()
        if s.ending:
            s.maybe_end()
    elif s.request_mode == GATHER:
        watch(s, now_ms)
    if s.attention or settled.start != start:
        s.attention = False
        s.flush_requests(buf, settled.start, pos)
        return ATTENTION
    return pos


def put_questions(s: SessionEnd) -> None:
    """A frame boundary: our own requests go out."""
    questions, s.questions = s.questions or (), None
    for question in questions:
        s.broker.put(question.frame)
        question.exchange.arrived_ms = s.engine.now_ms
        s.queue.append(question.exchange)
        s.unusual_replies += 1
    s.look_again()
    s.attention = True


def _mute_now(s: SessionEnd) -> None:
    """Between two requests: the client is muted for what was wanted meanwhile."""
    s.bear(s.mute_wanted & ~s.client.muted, 1)
    s.client.mute(s.mute_wanted)
    s.mute_wanted = 0
    s.look_again()
    s.engine.schedule(s)


def let_go(s: SessionEnd) -> None:
    """Give back what is kept of a request, or was to be."""
    s.request_gathered = None
    s.engine.announced.leave(s)
    s.engine.reservations.leave(s)


def forget(s: SessionEnd, now_ms: int) -> None:
    """The session ends: nothing more comes of what was kept of a request."""
    let_go(s)
    pending, s.pending = s.pending, None
    if pending is not None and not isinstance(pending.verdict, PolicyFault | None):
        s.complete(pending.exchange, Outcome.DISCONNECTED, now_ms)  # it was asked about
    questions, s.questions = s.questions or (), None
    for question in questions:
        question.exchange.on_reply(None)


# -- one request --------------------------------------------------------------------------------


def _begin(s: SessionEnd, buf: bytearray, pos: int, end: int, now_ms: int) -> int | None:
    """Decide what becomes of the frame at `pos`; the offset from which its rest is streamed.

    None: too little of it is here, or there is no memory. Sets request_left and request_mode.
    """
    handed = s.pending
    if handed is not None:  # the fast loop has asked already, or it was held
        return _begin_judged(s, buf, handed, pos, end, now_ms)
    if end - pos < 4:
        return None
    (size,) = _SIZE(buf, pos)
    if not MIN_FRAME_BYTES <= size <= s.engine.request_max_bytes:
        raise ClientProtocolError(
            f"a frame of {size} bytes (from {MIN_FRAME_BYTES} to {s.engine.request_max_bytes} may be)"
            + guess_protocol(bytes(memoryview(buf)[pos : min(end, pos + 8)]))
        )
    if end - pos < 12:
        return None
    stop = pos + 4 + size
    limit = min(stop, end)
    found = plan_for(s, buf, pos, limit, size)
    if found is None:
        if stop <= end:
            raise ClientProtocolError("a request head longer than its frame")
        return None
    plan, body_at = found
    if 12 + len(plan.usual) > MAX_HEAD_BYTES:
        raise ClientProtocolError(_TOO_LONG)
    if s.head_reserved:
        s.engine.reservations.give_back(s)
    exchange = s.admit(plan, _REQUEST(buf, pos)[2], size, now_ms)
    if plan.answer is not None:
        s.arrived(exchange)
        answer(s, exchange, plan.answer, now_ms)
        s.request_left, s.request_mode = 4 + size, DROP
        return pos
    hooks = plan.hooks
    if hooks.need is Need.BODY or plan.api.key in SASL:
        begun = _keep_whole(s, Pending(exchange, None), pos)
        if begun is not None:
            s.arrived(exchange)
            s.usage.defer(size)  # until the policies are asked
        return begun
    if hooks.need is Need.HEAD and not read_head(s, exchange, buf, body_at, limit):
        if stop <= end:
            raise ClientProtocolError("a request body shorter than its fields")
        return None
    s.arrived(exchange)
    verdict = s.ask(exchange, now_ms)
    return _apply(s, exchange, verdict, pos, body_at, end, now_ms)


def _begin_judged(
    s: SessionEnd, buf: bytearray, judged: Pending, pos: int, end: int, now_ms: int
) -> int | None:
    s.pending = None
    s.look_again()
    exchange, verdict = judged
    s.taken_up(exchange)
    assert not isinstance(verdict, PolicyFault)  # noqa: S101 - `rest` has looked
    body_at = pos
    if exchange.head is not None or exchange.plan.keeps or exchange.plan.topics:
        api = exchange.plan.api
        found = header.body_at(buf, pos, end, api.request_header_version)
        assert found is not None  # noqa: S101 - its head was read before it was judged
        body_at = found
    return _apply(s, exchange, verdict, pos, body_at, end, now_ms)


def _apply(
    s: SessionEnd,
    exchange: Exchange,
    verdict: Verdict | None,
    pos: int,
    body_at: int,
    end: int,
    now_ms: int,
) -> int | None:
    """Do what was decided before the first byte of the request has gone on. None: it has to wait for memory."""
    whole = 4 + exchange.size_bytes
    ends = verdict.forward if isinstance(verdict, Throttle) else verdict
    too_large = isinstance(ends, Reject) and whole > min(
        MAX_REFUSED_BYTES, s.engine.request_pool.max_single_bytes
    )
    if not (ends is FORWARD or too_large or isinstance(ends, Hold | Respond)):
        # Patches, a new body, or an error reply that echoes the body: all of it has to be here.
        begun = _keep_whole(s, Pending(exchange, ends), pos)
        if begun is None:
            s.pending = Pending(exchange, verdict)
        elif ends is not verdict and isinstance(verdict, Throttle):
            s.quiet(exchange, verdict.throttle_time_ms, now_ms)
        return begun
    if ends is FORWARD and whole > s.engine.announced.small_bytes and pos + whole > end:
        if not s.engine.announced.try_begin(s, whole):
            s.pending = Pending(exchange, verdict)
            return None
        if s.short_since_us:
            s.granted(exchange)
    if isinstance(verdict, Throttle):  # the mute begins behind it
        s.request_left, s.request_mode = whole, STREAM if ends is FORWARD else DROP
        s.quiet(exchange, verdict.throttle_time_ms, now_ms, verdict.why)
        verdict = verdict.forward
    if verdict is FORWARD:
        _forward(s, exchange, now_ms)
        s.request_mode = STREAM
        plan = exchange.plan
        if plan.keeps or (plan.topics and plan.api.key == ApiKey.PRODUCE):
            if not isinstance(exchange.head, produce.ProduceWalker):
                exchange.head = walker_for(s, exchange)
            if plan.keeps:
                exchange.kept = exchange.head
        s.passing = None if exchange.plan.silent else exchange
        if isinstance(exchange.head, produce.ProduceWalker):
            s.walker = exchange.head
            s.request_left = whole - (body_at - pos)
            return body_at
        s.request_left = whole
        return pos
    if isinstance(verdict, Hold):
        s.request_left = 0
        hold(s, exchange, verdict, now_ms)
    elif isinstance(verdict, Respond):
        respond(s, exchange, verdict, now_ms)
        s.request_left, s.request_mode = whole, DROP
    else:
        assert isinstance(verdict, Reject)  # noqa: S101 - all else is dealt with above
        s.mark_refused(exchange, verdict)
        s.complete(exchange, Outcome.ANSWERED, now_ms, forwarded=False)
        s.request_left, s.request_mode = whole, DROP
        s.end_after_replies(
            CloseReason.POLICY, f"refused, and its {whole} bytes are too many to keep"
        )
    return pos


def _keep_whole(s: SessionEnd, pending: Pending, pos: int) -> int | None:
    """The frame at `pos` is kept whole; None: it has to wait for memory. SASL is exempt, and capped."""
    exchange = pending.exchange
    whole, room = 4 + exchange.size_bytes, s.engine.reservations
    if exchange.plan.api.key not in SASL:
        most = s.engine.request_pool.max_single_bytes
        if whole > most:
            if pending.verdict is not None:
                s.complete(exchange, Outcome.DISCONNECTED, s.engine.now_ms, forwarded=False)
            s.request_left, s.request_mode = whole, DROP
            s.end_after_replies(
                CloseReason.POLICY, f"{whole} bytes have to be kept whole ({most} may be)"
            )
            return pos
        if not room.reserve(s, whole):
            return None
        if s.short_since_us:
            s.granted(exchange)
    s.reading_ms = s.engine.now_ms
    s.pending = pending
    s.request_left, s.request_mode = whole, GATHER
    return pos


def _forward(s: SessionEnd, exchange: Exchange, now_ms: int) -> None:
    plan = exchange.plan
    sent(exchange, now_ms)
    if plan.silent:
        s.complete(exchange, Outcome.NO_REPLY, now_ms)
    else:
        s.queue.append(exchange)


def _gather(s: SessionEnd, buf: bytearray, start: int, stop: int) -> None:
    if s.request_gathered is None:
        s.request_gathered = bytearray()
    s.request_gathered += memoryview(buf)[start:stop]
    if not s.holds:
        s.engine.reservations.count(s, stop - start)


def _settle_whole(s: SessionEnd, now_ms: int) -> None:
    """A request that was kept whole is here: ask (if not asked yet) and do what was decided."""
    frame, s.request_gathered = s.request_gathered, None
    pending, s.pending = s.pending, None
    assert frame is not None and pending is not None  # noqa: S101, PT018 - GATHER sets both
    exchange, verdict = pending
    body_at = whole_body_at(exchange, frame)
    if verdict is None:
        read_head(s, exchange, frame, body_at, len(frame))
        exchange.body = bytes(memoryview(frame)[body_at:])
        s.usage.charge(exchange.size_bytes)
        verdict = s.ask(exchange, now_ms)
    while s.ending and isinstance(verdict, Hold):  # nobody is held any more
        verdict = s.ask_again(exchange, verdict.then, now_ms)
    if isinstance(verdict, Hold):
        s.request_gathered = frame
        exchange.body = None  # made anew when it is asked about again: see `body_of`
        hold(s, exchange, verdict, now_ms)
        return
    if isinstance(verdict, Throttle):
        s.quiet(exchange, verdict.throttle_time_ms, now_ms, verdict.why)
        verdict = verdict.forward
    if isinstance(verdict, Forward):
        sent_on = changed(s, exchange, frame, body_at, verdict, now_ms)
        if exchange.plan.api.key == ApiKey.FETCH:
            wait_anew(s, exchange, sent_on, body_at)
        s.broker.put(sent_on, s.engine.reservations.hand_over(s))
        s.engine.reservations.serve_freed()
        s.attention = True
        if exchange.plan.keeps and keep(exchange, frame, 0, len(frame)) < 0:
            lose(exchange)
        count_kept(s, exchange)
        if exchange.plan.topics and exchange.plan.api.key == ApiKey.PRODUCE:
            produced_whole(s, exchange, sent_on, body_at)
        if exchange.plan.api.key in SASL:
            observe_sasl(s, exchange, bytes(memoryview(frame)[body_at:]))
        _forward(s, exchange, now_ms)
    elif isinstance(verdict, Respond):
        respond(s, exchange, verdict, now_ms)
    elif isinstance(verdict, Reject):
        refuse(s, exchange, verdict, bytes(memoryview(frame)[body_at:]), now_ms)
    exchange.body = None
    if s.reserved_bytes:
        s.engine.reservations.give_back(s)
