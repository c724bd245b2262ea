"""The general path of requests: those that the fast loop of `Session.from_client` did not handle.

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
from typing import TYPE_CHECKING, Protocol

from policies.api import FORWARD, Hold, Need, Outcome, Reject, Respond, Throttle
from policies.chain import PolicyFault
from proxy.core.errors import ClientProtocolError, CloseReason
from proxy.core.memory.announced import GATHERS, STREAMS, WAITS
from proxy.core.memory.claim import HEAD_BYTES
from proxy.core.protocol_sniffer import guess_protocol
from proxy.core.session.body_walk import (
    on_produced,
    on_unread,
    read_head,
    walker_for,
)
from proxy.core.session.channel import ATTENTION, STOPS_PARSING
from proxy.core.session.exchange import ObservedExchange
from proxy.core.session.held_request import hold
from proxy.core.session.kept_produce import leave_to_broker, on_streamed
from proxy.core.session.local_replies import answered, refuse_unanswered, respond
from proxy.core.session.logins import is_logging_in, keep_login, may_keep_head, on_processed
from proxy.core.session.naming_exchange import NamingExchange
from proxy.core.session.plan import SASL
from proxy.core.session.traces import add_stage, on_received
from proxy.core.session.whole_judgement import JudgedOwner, Pending, forward, judging
from proxy.core.stats.request_trace import Stage
from proxy.core.turns import LABOUR_BEGUN_BYTES, LABOUR_STEP_BYTES, LABOUR_WALK_BYTES, labour_of
from wire import header, produce
from wire.apis import ApiKey
from wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Generator

    from policies.api import Verdict
    from proxy.core.session.settled import Settled
    from wire.produce import ProduceWalker

_REQUEST = Struct(">iii").unpack_from
_SIZE = Struct(">i").unpack_from

STREAM, DROP, GATHER = range(3)
"""The modes: forward, discard or keep the bytes of the request that is passing."""
MIN_FRAME_BYTES = 10
"""The size of the shortest request: key, version, correlation id and a null client id."""
MAX_REFUSED_BYTES = 16 << 20
"""A refused request is kept whole for its reply's sake; a larger one is closed without a reply."""
MAX_HEAD_BYTES = 65536
"""The longest accepted request head (header, transactional id)."""
FETCH_HEAD_BYTES = 64
"""The most bytes after the head that have the other fields of a Fetch that a policy may need."""
_TOO_LONG = f"a request head of more than {MAX_HEAD_BYTES} bytes"


class RequestOwner(JudgedOwner, Protocol):
    """The session as requests see it: a `JudgedOwner` with these attributes and methods."""

    @property
    def is_holding(self) -> bool: ...
    @property
    def has_questions(self) -> bool: ...
    def put_questions(self) -> None: ...
    def on_arrived(self, exchange: ObservedExchange) -> None: ...
    def on_streamed(self) -> None: ...
    def give_back_head(self) -> None: ...
    def keep_off_fast_loop(self) -> None: ...
    def leave_memory(self) -> None: ...


class RequestStream:
    """The request that is passing. Made when one leaves the fast loop; gone between two requests.

    `left`: how many of its bytes are still to come. `pending`: the request that begins next. `gathered`: the received
    bytes of one that is kept whole. `judged`: the request that the chain was asked about last.
    """

    __slots__ = (
        "_mode",
        "_owner",
        "_passing",
        "_walker",
        "_work",
        "gathered",
        "judged",
        "left",
        "pending",
    )

    def __init__(self, owner: RequestOwner) -> None:
        self._owner = owner
        self.left = 0
        self._mode = STREAM
        self.gathered: bytearray | None = None
        self.pending: Pending | None = None
        self._passing: ObservedExchange | None = None  # whose reply is due, once it is through
        self._walker: ProduceWalker | None = None
        self._work: Generator[Pending, None, None] | None = None  # on a large one, between turns
        self.judged: ObservedExchange | None = None

    # -- what a session asks ---------------------------------------------------------------------

    @property
    def is_plain(self) -> bool:
        """Whether a request streams, and its bytes are forwarded as they arrive."""
        return self.left > 0 and self._mode == STREAM and self._walker is None

    @property
    def is_at_rest(self) -> bool:
        """Whether the next byte begins a new request."""
        return not self.left and self.pending is None and self.gathered is None

    @property
    def streams(self) -> bool:
        """Whether the bytes of the passing request are forwarded to the broker."""
        return self._mode == STREAM

    @property
    def is_gathering(self) -> bool:
        """Whether a request is being kept whole, and not all of it has arrived."""
        return self.left > 0 and self._mode == GATHER

    @property
    def half_sent(self) -> ObservedExchange | None:
        """Return the request of which the client has not sent everything yet, while it streams."""
        return self._passing if self.left and self._mode == STREAM else None

    # -- what a session says ---------------------------------------------------------------------

    def pass_on(self, size_bytes: int) -> int:
        """Return how many of the next `size_bytes` belong to this plain request; complete it with its last byte."""
        taken = min(size_bytes, self.left)
        self.left -= taken
        if not self.left:
            self._on_through()
        return taken

    def resume(self, exchange: ObservedExchange, verdict: Verdict | PolicyFault) -> None:
        """Keep the verdict on a request until its bytes are handled."""
        self.pending = Pending(exchange, verdict)

    def lose_half_sent(self, now_ms: int) -> None:
        """Complete the newest request, which the client will never finish, so that no reply to it can come."""
        passing, queue = self._passing, self._owner.queue
        if passing is not None and queue and queue[-1] is passing:
            queue.pop()
            self._owner.complete(passing, Outcome.DISCONNECTED, now_ms)
        self._passing = self._walker = None
        self.left = 0

    def release(self, now_ms: int) -> None:
        """Discard a kept or pending request, because the session ends."""
        self.drop_kept()
        pending, self.pending = self.pending, None
        if pending is not None and not isinstance(pending.verdict, PolicyFault | None):
            self._owner.complete(pending.exchange, Outcome.DISCONNECTED, now_ms)  # it was judged
        self.left = 0

    def drop_kept(self) -> None:
        """Release the memory of a request that is kept whole, or waits for memory."""
        self.gathered = self._work = None
        self._owner.leave_memory()

    def complete_judged(self, now_ms: int) -> None:
        """Complete the request that was judged last, because a fault prevented its verdict from being applied."""
        judged, self.judged = self.judged, None
        if judged is not None:
            self._owner.complete(judged, Outcome.DISCONNECTED, now_ms, forwarded=False)

    # -- the general path ------------------------------------------------------------------------

    def rest(self, buf: bytearray, settled: Settled, end: int, now_ms: int) -> int:
        """Take buf[settled.stop:end]. Returns as `from_client` does; if it raises, `settled` may be forwarded."""
        owner = self._owner
        client, broker = owner.client, owner.broker
        start, pos = settled.start, settled.stop  # buf[settled.start:pos] is forwarded as it is
        max_labour_bytes = owner.shared.turns.labour_bytes
        labour_bytes = LABOUR_BEGUN_BYTES if self.left and not max_labour_bytes else 0
        pending = self.pending
        if pending is not None and (
            self._work is not None  # a mute is for the requests after it
            or not (self.left or client.muted & STOPS_PARSING)
        ):
            if isinstance(pending.verdict, PolicyFault):
                raise pending.verdict
            if self.gathered is not None:  # it was held, and may be forwarded
                self._take_up(pending.exchange)
                self._settle_whole(now_ms)
        while pos < end and self._work is None:
            if self.left:
                if self._must_wait(labour_bytes, max_labour_bytes, end - pos):
                    owner.pace(bytes(memoryview(buf)[pos:end]))
                    break
                taken, cost_bytes = self._take(buf, settled, pos, end, now_ms)
                pos += taken
                labour_bytes += cost_bytes
                continue
            settled.stop = pos
            if owner.has_questions:
                broker.put_slice(buf, settled.start, pos)
                settled.start = pos
                owner.put_questions()
            owner.on_request_boundary()
            if client.muted & STOPS_PARSING:
                client.keep(bytes(memoryview(buf)[pos:end]))
                break
            if owner.ending and self.pending is None:
                owner.give_back_claim()
                broker.put_slice(buf, settled.start, pos)
                settled.start = pos = end
                break
            # While others wait for turns, a request begins only if its end is not in this read.
            is_whole = end - pos >= 4 and 4 + _SIZE(buf, pos)[0] <= end - pos
            if (
                labour_bytes >= max_labour_bytes
                and (max_labour_bytes or is_whole)
                and not self._holds_next
            ):
                owner.pace(bytes(memoryview(buf)[pos:end]))
                break
            begun = self._begin(buf, pos, end, now_ms)
            if begun is None or owner.is_holding:
                if not (self.pending or client.muted & STOPS_PARSING):  # its head is incomplete
                    self._keep_head(end - pos, now_ms)
                client.keep(bytes(memoryview(buf)[pos:end]))
                break
            if self._mode != GATHER:
                owner.give_back_claim()  # it is no longer kept whole
            pos = begun
            labour_bytes += labour_of(self.left, streams=self._mode == STREAM)
        settled.stop = pos
        if self._work is not None:
            owner.pace(bytes(memoryview(buf)[pos:end]))
            owner.keep_off_fast_loop()  # the next turn begins here, with or without bytes
        if not self.left:
            if owner.has_questions:
                broker.put_slice(buf, settled.start, pos)
                settled.start = pos
                owner.put_questions()
            owner.on_request_boundary()
            owner.look_again()
            if owner.ending:
                owner.maybe_end()
        elif self._mode == GATHER:
            claim = owner.claim
            if claim.holds:  # all but SASL requests
                owner.shared.reservations.extend(claim, len(self.gathered or b""))
            claim.watch(now_ms)
        if owner.take_attention() or settled.start != start:
            broker.put_slice(buf, settled.start, pos)
            return ATTENTION
        return pos

    @property
    def _holds_next(self) -> bool:
        """Whether the next request is to be held: at once, because its key may be woken before the next turn."""
        return self.pending is not None and isinstance(self.pending.verdict, Hold)

    def _must_wait(self, labour_bytes: int, max_labour_bytes: int, here_bytes: int) -> bool:
        """Return whether the next `here_bytes` of the passing request wait for a turn, because they cost much."""
        if self._walker is not None:
            return labour_bytes >= max(max_labour_bytes, LABOUR_WALK_BYTES)
        return self._mode == GATHER and not max_labour_bytes and here_bytes >= self.left

    def _take(
        self, buf: bytearray, settled: Settled, pos: int, end: int, now_ms: int
    ) -> tuple[int, int]:
        """Take bytes of the passing request from buf[pos:end]; return how many, and their cost as labour."""
        taken, cost_bytes = min(self.left, end - pos), 0
        mode = self._mode
        if mode == STREAM:
            if self._walker is not None:
                taken, cost_bytes = self._walk(self._walker, buf, pos, taken, now_ms)
        else:
            self._owner.broker.put_slice(buf, settled.start, pos)
            settled.start = pos + taken
            if mode == GATHER:
                self._gather(buf, pos, settled.start)
        self.left -= taken
        if not self.left:
            self._walker = None
            self._mode = STREAM
            if mode == GATHER:
                if self.pending is not None:
                    on_received(self._owner.shared, self.pending.exchange)
                self._settle_whole(now_ms)
            elif mode == STREAM:
                self._on_through()
        return taken, cost_bytes

    def _on_through(self) -> None:
        """Report a streamed request, because its last byte was forwarded; it may have been answered already."""
        owner, passing = self._owner, self._passing
        owner.on_streamed()
        if passing is not None and owner.queue and owner.queue[-1] is passing:
            on_received(owner.shared, passing)

    def _keep_head(self, here_bytes: int, now_ms: int) -> None:
        """Reserve memory for a long incomplete head, and watch its time. Raises ClientProtocolError over the limit."""
        owner = self._owner
        if here_bytes > MAX_HEAD_BYTES + FETCH_HEAD_BYTES:
            raise ClientProtocolError(_TOO_LONG)
        if here_bytes > HEAD_BYTES and may_keep_head(owner, here_bytes):
            owner.claim.watch_head(now_ms)

    # -- one request -----------------------------------------------------------------------------

    def _begin(self, buf: bytearray, pos: int, end: int, now_ms: int) -> int | None:
        """Begin the request at `pos`; return the offset from which its other bytes are handled.

        None: its head is incomplete, or there is no memory for it. Sets `left` and the mode.
        """
        owner = self._owner
        if self.pending is not None:  # the fast loop has asked already, or it was held
            return self._begin_judged(buf, self.pending, pos, end, now_ms)
        if end - pos < 4:
            return None
        (size,) = _SIZE(buf, pos)
        max_bytes = owner.shared.request_max_bytes
        if not MIN_FRAME_BYTES <= size <= max_bytes:
            hint = guess_protocol(bytes(memoryview(buf)[pos : min(end, pos + 8)]))
            expected = f"is outside {MIN_FRAME_BYTES}..{max_bytes}"
            raise ClientProtocolError(f"frame size {size} {expected}{hint}")
        if end - pos < 12:
            return None
        stop = pos + 4 + size
        limit = min(stop, end)
        found = owner.plans.find(buf, pos, limit, size)
        if found is None:
            if stop <= end:
                raise ClientProtocolError("the request head is longer than its frame")
            return None
        plan, body_at = found
        if 12 + len(plan.prefix) > MAX_HEAD_BYTES:
            raise ClientProtocolError(_TOO_LONG)
        owner.give_back_head()
        on_processed(owner)
        hooks = plan.hooks
        kind = NamingExchange if hooks.need is Need.TOPICS else ObservedExchange
        exchange = kind(
            plan, _REQUEST(buf, pos)[2], size, owner.shared.now_us, owner.next_exchange_id()
        )
        if hooks.need >= Need.BODY or plan.api.key in SASL:
            begun = self._keep_whole(Pending(exchange, None), pos, end)
            if begun is not None:
                owner.on_arrived(exchange)
                owner.usage.defer(size)  # until the policies are asked
            return begun
        if hooks.need is Need.HEAD and not read_head(owner.shared, exchange, buf, body_at, limit):
            if stop <= end:
                raise ClientProtocolError("the request body is shorter than its fields")
            return None
        owner.on_arrived(exchange)
        verdict = self.ask(exchange, now_ms)
        return self._apply(exchange, verdict, pos, body_at, end, now_ms)

    def ask(self, exchange: ObservedExchange, now_ms: int) -> Verdict:
        """Ask the policies about a request."""
        if not exchange.plan.simple:
            self.judged = exchange
        return self._owner.calls.ask(exchange, now_ms)

    def _begin_judged(
        self, buf: bytearray, judged: Pending, pos: int, end: int, now_ms: int
    ) -> int | None:
        self.pending = None
        self._owner.look_again()
        exchange, verdict = judged
        self._take_up(exchange)
        assert not isinstance(verdict, PolicyFault)  # noqa: S101 - `rest` has looked
        body_at = pos
        if exchange.head is not None or exchange.plan.keeps or exchange.plan.topics:
            api = exchange.plan.api
            body_at = header.body_at(buf, pos, end, api.request_header_version) or pos
        return self._apply(exchange, verdict, pos, body_at, end, now_ms)

    def _take_up(self, exchange: ObservedExchange) -> None:
        """Begin a request that was held. Time since the end of its wait counts as a throttle, if there was one."""
        owner = self._owner
        now_us, free_us = owner.shared.now_us, exchange.arrived_us
        if now_us != free_us:
            if owner.was_throttled_after(free_us):
                add_stage(owner.shared, exchange, Stage("throttle", free_us, now_us))
            exchange.wait_until(now_us)

    def _apply(
        self,
        exchange: ObservedExchange,
        verdict: Verdict | None,
        pos: int,
        body_at: int,
        end: int,
        now_ms: int,
    ) -> int | None:
        """Apply a verdict before the first byte of the request is forwarded. None: it has to wait for memory."""
        owner = self._owner
        shared = owner.shared
        whole = 4 + exchange.size_bytes
        if exchange.plan.answer is not None:
            verdict = answered(verdict, exchange.plan.answer)
        ends = verdict.forward if isinstance(verdict, Throttle) else verdict
        too_large = isinstance(ends, Reject) and whole > min(
            MAX_REFUSED_BYTES, shared.request_pool.max_single_bytes
        )
        needs_whole = isinstance(ends, Hold) and exchange.plan.hooks.need >= Need.BODY
        begins = STREAMS
        announces = ends is FORWARD and whole > shared.announced.small_bytes and pos + whole > end
        if announces:
            begins = shared.announced.begin(owner.claim, exchange.exchange_id, whole, end - pos)
            if begins == WAITS:
                self.pending = Pending(exchange, verdict)
                return None
        if (
            needs_whole
            or begins == GATHERS
            or not (ends is FORWARD or too_large or isinstance(ends, Hold | Respond))
        ):
            # A slow body, patches, a new body, an error reply that echoes it, or a policy that needs it again.
            begun = self._keep_whole(Pending(exchange, ends), pos, end)
            if begun is None:
                self.pending = Pending(exchange, verdict)
            elif ends is not verdict and isinstance(verdict, Throttle):
                owner.throttle_request(exchange, verdict.throttle_time_ms, now_ms)
            return begun
        if announces:
            self._on_granted(exchange)
        if isinstance(verdict, Throttle):  # the mute begins after it
            self.left, self._mode = whole, STREAM if ends is FORWARD else DROP
            owner.throttle_request(exchange, verdict.throttle_time_ms, now_ms, verdict.why)
            verdict = verdict.forward
        if verdict is FORWARD:
            return self._begin_stream(exchange, whole, pos, body_at, now_ms)
        if isinstance(verdict, Hold):
            self.left = 0
            hold(owner, exchange, verdict, now_ms)
        elif isinstance(verdict, Respond):
            respond(owner, exchange, verdict, now_ms)
            self.left, self._mode = whole, DROP
        else:
            assert isinstance(verdict, Reject)  # noqa: S101 - all else is dealt with above
            self.left, self._mode = whole, DROP
            refuse_unanswered(owner, exchange, verdict, now_ms)
        return pos

    def _begin_stream(
        self, exchange: ObservedExchange, whole: int, pos: int, body_at: int, now_ms: int
    ) -> int:
        """Begin to stream the request; return the offset from which its bytes are streamed."""
        forward(self._owner, exchange, now_ms)
        self._mode = STREAM
        plan = exchange.plan
        if plan.keeps or (plan.topics and plan.api.key == ApiKey.PRODUCE):
            if not isinstance(exchange.head, produce.ProduceWalker):
                exchange.head = walker_for(self._owner.shared, exchange)
            if plan.keeps:
                exchange.kept = exchange.head
        self._passing = None if plan.silent else exchange
        if isinstance(exchange.head, produce.ProduceWalker):
            self._walker = exchange.head
            self.left = whole - (body_at - pos)
            return body_at
        self.left = whole
        return pos

    def _on_granted(self, exchange: ObservedExchange) -> None:
        """Add a memory stage to the request's trace if it had to wait for memory."""
        owner = self._owner
        since_us = owner.claim.take_short_since_us()
        if since_us:
            exchange.arrived_us = min(exchange.arrived_us, since_us)
            exchange.began_us = min(exchange.began_us, since_us)
            now_us = owner.shared.now_us
            add_stage(owner.shared, exchange, Stage("memory", since_us, now_us))
            exchange.wait_until(now_us)

    # -- a request that is walked ----------------------------------------------------------------

    def _walk(
        self, walker: ProduceWalker, buf: bytearray, pos: int, size_bytes: int, now_ms: int
    ) -> tuple[int, int]:
        """Walk a Produce that streams; return how many of `size_bytes` are taken, and their cost as labour.

        Fewer are taken after MAX_WALK_STEPS (FEW_WALK_STEPS). Policies that asked for its head cannot do without it.
        Without such a policy the rest of a body that cannot be read passes unread.
        """
        steps = walker.steps
        stop = pos + size_bytes
        passing, shared = self._passing, self._owner.shared
        try:
            stop = walker.feed(buf, pos, stop, shared.turns.walk_steps)
        except WireError:
            if passing is None or passing.plan.hooks.need is not Need.HEADER:
                raise
            leave_to_broker(passing)
            self._walker = None
            on_unread(shared)
        if self._walker is not None and stop - pos == self.left:
            self._on_walked(walker, now_ms)
        return stop - pos, (walker.steps - steps) * LABOUR_STEP_BYTES

    def _on_walked(self, walker: ProduceWalker, now_ms: int) -> None:
        """Report a walked Produce whose last byte is about to be forwarded."""
        owner, passing = self._owner, self._passing
        on_produced(owner.shared, owner.peer.user, walker)
        if not walker.done:
            if passing is None or passing.plan.hooks.need is not Need.HEADER:
                raise ClientProtocolError("the Produce body ends inside a field")
            leave_to_broker(passing)
        elif passing is not None:
            on_streamed(passing, walker, now_ms)
            owner.on_kept(passing)

    # -- a request that is kept whole ------------------------------------------------------------

    def _keep_whole(self, pending: Pending, pos: int, end: int) -> int | None:
        """Keep the frame in buf[pos:end] whole; None: it has to wait for memory. Logins (`logins`) do not."""
        owner, exchange = self._owner, pending.exchange
        shared = owner.shared
        whole = 4 + exchange.size_bytes
        if not is_logging_in(owner, exchange):
            max_bytes = shared.request_pool.max_single_bytes
            if whole > max_bytes:
                if pending.verdict is not None:
                    owner.complete(exchange, Outcome.DISCONNECTED, shared.now_ms, forwarded=False)
                self.left, self._mode = whole, DROP
                why = f"request size {whole} exceeds {max_bytes} bytes of buffer"
                owner.end_after_replies(CloseReason.POLICY, why)
                return pos
            if not shared.reservations.reserve(owner.claim, whole, min(whole, end - pos)):
                return None
            self._on_granted(exchange)
        owner.claim.begin(shared.now_ms)
        self.pending = pending
        self.left, self._mode = whole, GATHER
        return pos

    def _gather(self, buf: bytearray, start: int, stop: int) -> None:
        if self.gathered is None:
            self.gathered = bytearray()
        self.gathered += memoryview(buf)[start:stop]
        claim = self._owner.claim
        if not claim.holds:
            keep_login(self._owner, stop - start)
        elif len(self.gathered) > claim.reserved_bytes:
            self._owner.shared.reservations.top_up(claim, len(self.gathered))

    def _settle_whole(self, now_ms: int) -> None:
        """Ask the policies about a request that was kept whole (if not asked yet), and apply the verdict.

        A large one takes several turns: it is kept, and pending, between them.
        """
        frame, self.gathered = self.gathered, None
        pending, self.pending = self.pending, None
        assert frame is not None and pending is not None  # noqa: S101, PT018 - GATHER sets both
        work, self._work = self._work, None
        if work is None:
            on_processed(self._owner)
            work = judging(self._owner, self, frame, pending, now_ms)
        for pending in work:
            self.gathered, self.pending, self._work = frame, pending, work
            return
