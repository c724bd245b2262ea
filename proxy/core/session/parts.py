"""The parts of a session, made when they are needed, and their calls to each other.

Rules:
- A part sees the session as its `Owner`, so that no part knows another. The methods here forward its calls.
- Each field has one writer: this class its own, each part its own.
- A session on the fast loop alone has none of the parts.
"""

from __future__ import annotations

from dataclasses import replace
from sys import intern
from typing import TYPE_CHECKING

from policies.api import Outcome
from proxy.core.connection_limits import AUTHENTICATED
from proxy.core.errors import CloseReason
from proxy.core.memory.claim import MemoryClaim
from proxy.core.session.broker_waits import BrokerWaits
from proxy.core.session.channel import Channel, Mute
from proxy.core.session.ending import Ending
from proxy.core.session.exchange_queue import ExchangeQueue
from proxy.core.session.in_flight import CROWDED, KEPT_BYTES, UNCOUNTED, InFlight, kept_bytes_of
from proxy.core.session.mutes import Mutes
from proxy.core.session.plan_book import PlanBook
from proxy.core.session.request_stream import RequestStream
from proxy.core.session.sasl_listener import SaslListener
from proxy.core.session.sasl_refusal import SaslRefusal
from proxy.core.session.traces import trace_of
from proxy.core.turns import ScheduledSession
from wire.apis import SIGN_ON

if TYPE_CHECKING:
    from policies.api import Peer, QuotaViolation, Verdict
    from policies.chain import PolicyFault
    from proxy.core.node_health import NodeHealth
    from proxy.core.session.exchange import Exchange, InsertedRequest, ObservedExchange
    from proxy.core.session.held_request import HeldRequest
    from proxy.core.session.policy_calls import PolicyCalls
    from proxy.core.session.reply_stream import ReplyStream
    from proxy.core.session.sasl_side import SaslSide
    from proxy.core.session.shared_state import SharedState


class SessionParts(ScheduledSession):
    """The parts of one session. `Session` adds the two directions and the methods for the event loop."""

    __slots__ = (
        "_claim",
        "_ending",
        "_uncounted",
        "broker",
        "calls",
        "client",
        "exchange_ids",
        "held",
        "in_flight",
        "mutes",
        "node",
        "peer",
        "plans",
        "questions",
        "queue",
        "replied_ms",
        "replies",
        "requests",
        "sample_left",
        "samples",
        "sasl",
        "shared",
        "unanswered_ms",
        "usage",
        "waits",
    )

    def __init__(
        self,
        shared: SharedState,
        calls: PolicyCalls,
        peer: Peer,
    ) -> None:
        super().__init__()
        self.shared = shared
        self.calls = calls
        self.peer = peer
        # what waits for the client are replies, what was read of it are requests
        self.client = Channel(shared.reply_pool, shared.request_pool)
        self.broker = Channel(shared.request_pool, shared.reply_pool, shared.reservations, self)
        self.node: NodeHealth = shared.topology.nodes.health(peer.node_id)
        self.usage = shared.usage.join(peer.user, peer.client_id, shared.now_ms)
        self.queue = ExchangeQueue()
        self.plans = PlanBook(self)
        self.exchange_ids = 0
        # when the broker last sent something; at first, when the client came
        self.replied_ms = shared.now_ms
        self.unanswered_ms = 0  # when the client last sent a request that has no reply
        self.samples = shared.sample_every != 0
        self.sample_left = shared.sample_from() if self.samples else 0  # requests until one is
        # the parts
        self.requests: RequestStream | None = None
        self.replies: ReplyStream | None = None
        self.mutes: Mutes | None = None
        self.waits: BrokerWaits | None = None
        self._claim: MemoryClaim | None = None
        self.in_flight: InFlight | None = None
        self._uncounted = UNCOUNTED  # with more exchanges in flight, what they cost is counted
        self.held: HeldRequest | None = None
        self.sasl: SaslSide | None = None
        if shared.sasl_server is not None:
            from proxy.core.session.sasl_gate import SaslGate  # noqa: PLC0415 - others do not keep it

            self.sasl = SaslGate(self, shared.sasl_server)
        self._ending: Ending | None = None
        self.questions: list[InsertedRequest] | None = None

    # -- the event loop -----------------------------------------------------------------------------

    @property
    def paced(self) -> bool:
        """Whether bytes already read wait for the session's next turn (`resume`)."""
        return bool(self.client.muted & Mute.PACED)

    def pace(self, unread: bytes) -> None:
        """End this turn: `unread` is kept, counted, until the next; requests of other clients wait for turns too."""
        self.shared.turns.labour_bytes = 0
        self.client.keep(unread)
        self.client.mute(Mute.PACED)
        self.attend()

    def call_attention(self) -> None:
        """Note that this read is not forwarded as it came: the session must return ATTENTION."""
        self.attention = True

    def take_attention(self) -> bool:
        """Return whether `call_attention` was called since the last time, and reset it."""
        attention, self.attention = self.attention, False
        return attention

    def schedule(self) -> None:
        """Ask the event loop for a turn of this session."""
        self.shared.schedule(self)

    def attend(self) -> None:
        """Tell the event loop to look at this session: something happened outside the session's own reads."""
        self.shared.attend(self)

    # -- questions of our own -----------------------------------------------------------------------

    def put_questions(self) -> None:
        """Send our own requests to the broker, at a frame boundary."""
        questions, self.questions = self.questions or (), None
        for question in questions:
            self.broker.put(question.frame)
            question.exchange.arrived_ms = self.shared.now_ms
            self.queue.push_unusual(question.exchange)
        self.look_again()
        self.call_attention()

    @property
    def has_questions(self) -> bool:
        """Whether requests of our own wait for a frame boundary."""
        return self.questions is not None

    # -- who speaks --------------------------------------------------------------------------------

    def on_client_id(self, client_id: str) -> None:
        """Count later requests for this client id, which the client has sent."""
        self.become(replace(self.peer, client_id=intern(client_id)))

    def become(self, peer: Peer) -> None:
        """Replace the peer, because more is known of the client: later requests are counted for the new peer.

        If its user has too many connections, the session keeps the old peer and ends.
        """
        if (peer.user, peer.principal_source) != (self.peer.user, self.peer.principal_source):
            refusal = self.shared.connections.change_user(self.peer, peer)
            if refusal is not None:
                self.end_after_replies(*refusal)
                return
            if peer.principal_source in AUTHENTICATED:
                self.shared.newcomers.discard(self)
        self.peer = peer
        self.plans.clear()
        old = self.usage
        if (peer.user, peer.client_id) == (old.user, old.client_id):
            return
        usage = self.shared.usage.join(peer.user, peer.client_id, self.shared.now_ms)
        self.shared.usage.leave(old)
        if self.mutes is not None:
            self.mutes.begin_deferred(self.shared.now_ms)
        self.count_muted_time(self.client.muted, -1)
        self.usage = usage
        self.count_muted_time(self.client.muted, 1)

    def takes_sasl(
        self, exchange: ObservedExchange, frame: bytearray, body_at: int, now_ms: int
    ) -> bool:
        """Handle a whole SASL request; return whether it is answered here, and not forwarded."""
        return self.sasl_now().takes(exchange, bytes(memoryview(frame)[body_at:]), now_ms)

    def sasl_now(self) -> SaslSide:
        """Return the part that handles the client's SASL requests, made now if this is the first."""
        if self.sasl is None:
            self.sasl = SaslRefusal(self) if self.shared.has_custody else SaslListener(self)
            self.shared.newcomers.on_sasl_begun(self, self.shared.now_ms)
        return self.sasl

    # -- what is counted -------------------------------------------------------------------------

    def on_arrived(self, exchange: ObservedExchange) -> None:
        """Count a request of the general path whose head has arrived."""
        shared, usage, plan = self.shared, self.usage, exchange.plan
        size_bytes = exchange.size_bytes
        if self in shared.newcomers:
            shared.newcomers.on_request(self, shared.now_ms)
        usage.requests += 1
        usage.request_bytes += 4 + size_bytes
        if plan.is_special:
            if plan.api.key in SIGN_ON:
                if plan.spared:
                    usage.mark_exempt(size_bytes)
                self.plans.on_sign_on(plan)
                if self.sasl is not None:
                    self.sasl.on_sign_on(plan.api.key)
            else:
                trace = trace_of(shared, exchange)
                if trace is not None:
                    trace.audited = True
        if self.samples:
            self.sample_left -= 1
            if self.sample_left <= 0:
                self._sample(exchange)

    def _sample(self, exchange: ObservedExchange) -> None:
        self.sample_left = self.shared.sample_every
        trace = trace_of(self.shared, exchange)
        if trace is not None:
            trace.sampled = True

    def next_exchange_id(self) -> int:
        """Return the number of the next ObservedExchange."""
        self.exchange_ids += 1
        return self.exchange_ids

    def count_muted_time(self, reasons: int, by: int) -> None:
        """Begin (`by` 1) or end (-1) counting the client's time in a throttle or without memory."""
        if reasons & Mute.THROTTLED:
            self.usage.blocked.change(by, self.shared.now_ms)
        if reasons & Mute.OUT_OF_MEMORY:
            self.usage.muted.change(by, self.shared.now_ms)

    # -- mutes -----------------------------------------------------------------------------------

    def _mutes_now(self) -> Mutes:
        if self.mutes is None:
            self.mutes = Mutes(self)
        return self.mutes

    def mute_now(self, reason: int) -> None:
        """Mute the client at once."""
        self._mutes_now().mute_now(reason)

    def mute_after_request(self, reason: int) -> None:
        """Mute the client from the end of the request that is passing."""
        self._mutes_now().mute_after_request(reason)

    def on_request_boundary(self) -> None:
        """Mute the client between two requests, for the reasons that waited for this boundary."""
        if self.mutes is not None and self.mutes.wanted:
            self.mutes.on_request_boundary()

    def unmute(self, reason: int) -> None:
        """Remove a reason; after the last one the bytes that were read before the mute are handled in a later turn."""
        if self.mutes is not None:
            self.mutes.unmute(reason)

    def look_again(self) -> None:
        """Check whether requests may take the fast loop again."""
        if self.mutes is not None and self.mutes.unusual:
            self.mutes.look_again()

    def keep_off_fast_loop(self) -> None:
        """Keep requests off the fast loop, because the session ends or sends a request of our own."""
        self._mutes_now().look_again()

    def throttle_request(
        self,
        exchange: ObservedExchange,
        throttle_time_ms: int,
        now_ms: int,
        why: QuotaViolation | None = None,
    ) -> None:
        """Let this request pass and throttle its client; the reply carries the remaining time (KIP-219)."""
        self._mutes_now().throttle_request(exchange, throttle_time_ms, now_ms, why)

    def throttle(
        self,
        exchange: ObservedExchange,
        until_ms: int,
        now_ms: int,
        why: QuotaViolation | None = None,
    ) -> None:
        """Mute the client until `until_ms`."""
        self._mutes_now().throttle(exchange, until_ms, now_ms, why)

    def was_throttled_after(self, at_us: int) -> bool:
        """Return whether a throttle lasted beyond `at_us`, in the engine's microseconds."""
        return self.mutes is not None and self.mutes.throttled_until_ms * 1000 > at_us

    def end_throttle(self) -> None:
        """End the throttle: the client may send at once."""
        if self.mutes is not None:
            self.mutes.end_throttle()

    # -- requests and replies --------------------------------------------------------------------

    @property
    def request_left(self) -> int:
        """Return how many bytes of the request that is passing are still to come."""
        return 0 if self.requests is None else self.requests.left

    @property
    def request_streams(self) -> bool:
        """Whether the request that is passing is forwarded to the broker as it arrives."""
        return self.requests is None or self.requests.streams

    @property
    def is_gathering(self) -> bool:
        """Whether a request is being kept whole, and not all of it has arrived."""
        return self.requests is not None and self.requests.is_gathering

    @property
    def gathered(self) -> bytearray | None:
        """Return the received bytes of a request that is kept whole; None if none is."""
        return None if self.requests is None else self.requests.gathered

    @property
    def gathered_bytes(self) -> int | None:
        """Return how many bytes of a request that is being kept whole have arrived; None if none is."""
        return len(self.gathered or b"") if self.is_gathering else None

    @property
    def has_pending(self) -> bool:
        """Whether the next request was read, but has not begun."""
        return self.requests is not None and self.requests.pending is not None

    @property
    def is_inside_request(self) -> bool:
        """Whether a request has begun or was read, and is not forwarded completely."""
        return self.requests is not None and (self.requests.left > 0 or self.has_pending)

    @property
    def keeps_off_fast_loop(self) -> bool:
        """Whether requests must not take the fast loop, for another reason than a mute."""
        ending, requests = self._ending, self.requests
        return (
            (ending is not None and ending.ending)
            or self.questions is not None
            or (requests is not None and requests.pending is not None)
        )

    @property
    def half_sent(self) -> Exchange | None:
        """Return the request of which the client has not sent everything yet, while it streams."""
        return None if self.requests is None else self.requests.half_sent

    @property
    def reply_left(self) -> int:
        """Return how many bytes of the reply that is passing are still to come."""
        return 0 if self.replies is None else self.replies.left

    @property
    def is_holding(self) -> bool:
        """Whether a policy holds a request."""
        return self.held is not None

    def on_hold_begun(self, held: HeldRequest) -> None:
        """Note that a policy holds this request."""
        self.held = held

    def on_hold_over(self) -> None:
        """Note that no request is held."""
        self.held = None

    def resume_held(self, exchange: ObservedExchange, judged: Verdict | PolicyFault) -> None:
        """Apply the verdict on a held request in a later turn of the session; unmute the client."""
        self._resume(exchange, judged)
        self.unmute(Mute.HELD)

    def _resume(self, exchange: ObservedExchange, judged: Verdict | PolicyFault) -> None:
        if self.requests is None:
            self.requests = RequestStream(self)
        self.requests.resume(exchange, judged)

    def drop_kept_requests(self) -> None:
        """Release the memory of a request that is kept whole, or waits for memory."""
        if self.requests is not None:
            self.requests.drop_kept()
        else:
            self.leave_memory()

    def forget_requests(self, now_ms: int) -> None:
        """Discard kept requests, and requests of our own that were not sent."""
        if self.requests is not None:
            self.requests.release(now_ms)
        else:
            self.leave_memory()
        questions, self.questions = self.questions or (), None
        for question in questions:
            question.exchange.on_reply(None)

    def forget_replies(self) -> None:
        """Release the memory of a reply that is kept."""
        if self.replies is not None:
            self.replies.release()

    def complete(
        self, exchange: Exchange, outcome: Outcome, now_ms: int, *, forwarded: bool = True
    ) -> None:
        """Tell the policies, the trace and the capture, once, how a request has ended."""
        if outcome is Outcome.NO_REPLY:
            self.unanswered_ms = now_ms
        self.calls.complete(exchange, outcome, now_ms, forwarded=forwarded, reason=self.reason)

    # -- memory ----------------------------------------------------------------------------------

    @property
    def claim(self) -> MemoryClaim:
        """Return the session's claim on the pool of requests."""
        if self._claim is None:
            self._claim = MemoryClaim(self, self.shared)
        return self._claim

    @property
    def is_kept_waiting(self) -> bool:
        """Whether bytes wait for the broker, or the client is muted for another reason than backpressure."""
        return bool(self.broker.outbox or self.client.muted & ~Mute.BACKPRESSURE)

    def on_memory_refused(self) -> None:
        """Mute the client until there is memory for the next request."""
        self._mutes_now().mute_now(Mute.OUT_OF_MEMORY)
        self.call_attention()

    def on_memory_granted(self) -> None:
        """Unmute the client, because there is memory for its request."""
        self.unmute(Mute.OUT_OF_MEMORY)

    def on_streamed(self) -> None:
        """Release the announced bytes of a streamed request, because its last byte was forwarded."""
        claim = self._claim
        if claim is not None and claim.announced_bytes:
            self.shared.announced.give_back(claim)

    def give_back_head(self) -> None:
        """Release the memory that was reserved for a request head, because the head was read."""
        if self._claim is not None and self._claim.head_reserved:
            self.shared.reservations.give_back(self._claim)

    def give_back_claim(self) -> None:
        """Release the memory that was reserved for a request to be kept whole."""
        if self._claim is not None and self._claim.reserved_bytes:
            self.shared.reservations.give_back(self._claim)

    def leave_memory(self) -> None:
        """Stop waiting for memory, and release the memory that was reserved."""
        self.shared.unauthenticated.give_back(self)
        if self._claim is not None:
            self.shared.announced.leave(self._claim)
            self.shared.reservations.leave(self._claim)

    def on_kept(self, exchange: Exchange) -> None:
        """Count the kept bytes of a request of the general path, which may have arrived in many reads."""
        if kept_bytes_of(exchange) > KEPT_BYTES and not (
            self.in_flight is not None and self.in_flight.try_add_kept(exchange)
        ):
            self._uncounted = CROWDED

    def recount_in_flight(self) -> None:
        """Count the requests in flight again: some were answered here, or few are left."""
        if self.in_flight is not None:
            if self.in_flight.recount():
                self.in_flight = None
            self._set_threshold()

    def forget_in_flight(self) -> None:
        """Release the memory that requests in flight are counted with."""
        if self.in_flight is not None:
            self.in_flight.release()
            self.in_flight = None
        self._set_threshold()

    def _set_threshold(self) -> None:
        self._uncounted = UNCOUNTED if self.in_flight is None else self.in_flight.threshold

    # -- what the broker owes --------------------------------------------------------------------

    def _waits_now(self) -> BrokerWaits:
        if self.waits is None:
            self.waits = BrokerWaits(self)
        return self.waits

    def watch_unsent(self) -> None:
        """Start timing bytes that the broker has not taken."""
        self._waits_now().watch_unsent()

    def on_waits_idle(self) -> None:
        """Drop the BrokerWaits: the broker owes no reply."""
        self.waits = None

    def excuse_broker(self, now_ms: int) -> None:
        """Count the broker's time for its reply from `now_ms`: it could not reply before."""
        self.replied_ms = now_ms

    def on_answered_by_broker(self, exchange: Exchange) -> None:
        """Note that the broker's own reply to a request was forwarded completely."""
        if self.waits is not None:
            self.waits.on_answer(exchange)

    def on_late_reply_swallowed(self) -> None:
        """Note that a late reply of the broker was discarded."""
        self.node.on_settled()
        if not self.draining:
            self._waits_now().be_patient()

    def answer_waiting_fetches(self, now_ms: int) -> None:
        """Answer each fetch that still waits, because the proxy drains."""
        self._waits_now().expire(now_ms, draining=True)

    # -- the end ------------------------------------------------------------------------------------

    def _ending_now(self) -> Ending:
        if self._ending is None:
            self._ending = Ending()
        return self._ending

    @property
    def ending(self) -> bool:
        """Whether the session takes no more requests."""
        return self._ending is not None and self._ending.ending

    @property
    def draining(self) -> bool:
        """Whether the session ends because the proxy shuts down."""
        return self._ending is not None and self._ending.draining

    @property
    def ended(self) -> bool:
        """Whether both sides are to be closed as soon as their outboxes are empty."""
        return self._ending is not None and self._ending.ended

    @property
    def reason(self) -> CloseReason | None:
        """Return why the session ends; None before that."""
        return None if self._ending is None else self._ending.reason

    @property
    def detail(self) -> str:
        """Return why the session ends, in words; "" if there is nothing to add to the reason."""
        return "" if self._ending is None else self._ending.detail

    def end(self, reason: CloseReason, detail: str, now_ms: int) -> None:
        """Close both sides as soon as their outboxes are empty. Every exchange completes now."""
        self._ending_now().end(self, reason, detail, now_ms)

    def end_and_attend(self, reason: CloseReason, detail: str, now_ms: int) -> None:
        """End the session as `end` does, outside of its own reads."""
        self.end(reason, detail, now_ms)
        self.attend()

    def end_stuck(self, now_ms: int) -> None:
        """End a session whose client takes no replies, because other sessions need their memory."""
        held_bytes = self.client.unsent_bytes
        self.client.clear()
        detail = f"{held_bytes} bytes of replies not taken"
        self.end_and_attend(CloseReason.REPLY_WRITE_TIMEOUT, detail, now_ms)

    def end_after_replies(self, reason: CloseReason, detail: str = "") -> None:
        """Take no more requests; what is in flight is answered, then both sides are closed."""
        self._ending_now().end_after_replies(self, reason, detail)

    def maybe_end(self) -> None:
        """Close both sides if an end was requested and no reply is due."""
        if self._ending is not None:
            self._ending.maybe_end(self)

    def fail(self, fault: Exception, blamed: CloseReason) -> None:
        """End this session, and no other, because of a fault."""
        self._ending_now().fail(self, fault, blamed)

    def fail_and_attend(self, fault: Exception) -> None:
        """End this session because of a fault of our own or of a policy, outside of its own reads."""
        self.fail(fault, CloseReason.INTERNAL)
        self.attend()

    def upstream_closed(self) -> None:
        """Release the announced bytes, because the connection to the broker is closed."""
        if self._claim is not None:
            self.shared.announced.give_back(self._claim)
