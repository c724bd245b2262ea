"""The data of one session: a client, its broker, and what is between them.

Rules:
- Link is data. The modules of a session are functions over it, and each knows the modules below it only:

      session > request_stream, reply_stream > broker_waits, held_request, crowding, ... > mutes > link

- Each slot has one writer, named here; all others only read it. A test holds the modules to it.
- What only the whole session can do is a method that `Session` defines: to end, or to take another name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.api import FORWARD, Outcome
from proxy.core.errors import CloseReason
from proxy.core.memory.claim import MemoryClaim
from proxy.core.purgatory.timing_wheel import NEVER_MS
from proxy.core.session import paths
from proxy.core.session.channel import Channel, Mute
from proxy.core.session.exchange import Pending
from proxy.core.session.exchange_queue import ExchangeQueue
from proxy.core.session.in_flight import UNCOUNTED
from proxy.core.session.plan_book import PlanBook
from proxy.core.turns import ScheduledSession

if TYPE_CHECKING:
    from collections.abc import Generator

    from policies.api import Peer, Verdict
    from policies.chain import PolicyFault
    from proxy.core.node_health import NodeHealth
    from proxy.core.purgatory.purgatory import DelayedOperation
    from proxy.core.purgatory.timers import Timer
    from proxy.core.session.channel_throttle import ChannelThrottle
    from proxy.core.session.exchange import Exchange, InsertedRequest, ObservedExchange
    from proxy.core.session.in_flight import InFlight
    from proxy.core.session.policy_calls import PolicyCalls
    from proxy.core.session.sasl_side import SaslSide
    from proxy.core.session.shared_state import SharedState
    from proxy.core.stats.topic_counter import TopicCounter
    from wire.fetch_walk import FetchWalk
    from wire.produce import ProduceWalker

STREAM: Final = 0
"""The bytes of the passing request are forwarded to the broker as they arrive."""
GATHER: Final = 1
"""They are kept until all of them are here."""
DROP: Final = 2
"""They are discarded, because the request was answered here."""


class Link(ScheduledSession):
    """A client and its broker. `Session` adds the two directions and the methods for the event loop."""

    __slots__ = (
        "broker",
        "calls",
        "client",
        "detail",
        "diverted",
        "draining",
        "ended",
        "ending",
        "exchange_ids",
        "gathered",
        "held",
        "in_flight",
        "is_patient",
        "judged",
        "judgement",
        "keep_steps",
        "known_claim",
        "node",
        "nothing_due",
        "passing",
        "peer",
        "pending",
        "plans",
        "questions",
        "queue",
        "reason",
        "replied_ms",
        "reply_bytes",
        "reply_left",
        "reply_topics",
        "reply_walk",
        "request_left",
        "request_mode",
        "sample_left",
        "samples",
        "sasl",
        "settled",
        "shared",
        "taken_bytes",
        "taken_ms",
        "throttle",
        "unanswered_ms",
        "uncounted",
        "usage",
        "wait_at_ms",
        "wait_timer",
        "walker",
        "wanted",
    )

    def __init__(self, shared: SharedState, calls: PolicyCalls, peer: Peer) -> None:
        super().__init__()
        self.shared = shared
        self.calls = calls
        # what waits for the client are replies, what was read of it are requests
        self.client = Channel(shared.reply_pool, shared.request_pool)
        self.broker = Channel(shared.request_pool, shared.reply_pool, shared.reservations, self)
        self.node: NodeHealth = shared.topology.nodes.health(peer.node_id)
        self.queue = ExchangeQueue()
        # who speaks: `session` and `sasl`
        self.peer = peer
        self.usage = shared.usage.join(peer.user, peer.client_id, shared.now_ms)
        self.sasl: SaslSide | None = None
        self.plans = PlanBook(self)
        # the fast path
        self.exchange_ids = 0
        self.settled = 0  # of the read that is handled now: the bytes before this offset
        self.keep_steps = 0  # of the same read
        self.samples = shared.sample_every != 0
        self.sample_left = shared.sample_from() if self.samples else 0  # requests until one is
        # the request that passes: `request_stream`
        self.request_left = 0  # its bytes that are still to come
        self.request_mode = STREAM
        self.passing: ObservedExchange | None = None  # whose reply is due, once it is through
        self.walker: ProduceWalker | None = None  # reads along while it streams
        self.gathered: bytearray | None = None  # its bytes, while it is kept whole
        self.judged: ObservedExchange | None = None  # the chain was asked about it last
        self.judgement: Generator[Pending, None, bool] | None = (
            None  # of a large one, between turns
        )
        self.pending: Pending | None = None  # the request that begins next
        self.held: DelayedOperation | None = None  # the wait of a request that a policy holds
        # the reply that passes: `reply_stream`
        self.reply_bytes = 0  # its size, without the four bytes that say so
        self.reply_left = 0  # its bytes that are still to come
        self.reply_topics: TopicCounter | None = None  # reads along while it only streams
        self.reply_walk: FetchWalk | None = None  # finds its last tags while it streams
        # what the broker owes: `broker_waits`
        self.replied_ms = (
            shared.now_ms
        )  # when it last sent something; at first, when the client came
        self.unanswered_ms = 0  # when the client last sent a request that has no reply
        self.wait_timer: Timer | None = None
        self.wait_at_ms = NEVER_MS  # when it fires
        self.is_patient = False  # a late reply was discarded: the next request waits for the broker
        # what the other sides did not take at once: how much went out, and when that was last seen to change
        self.taken_bytes = -1
        self.taken_ms = 0
        # memory
        self.known_claim: MemoryClaim | None = None
        self.in_flight: InFlight | None = None  # `crowding`
        self.uncounted = UNCOUNTED  # with more exchanges in flight, what they cost is counted
        # requests of our own that wait for a frame boundary: `questions`
        self.questions: list[InsertedRequest] | None = None
        # `mutes`
        self.throttle: ChannelThrottle | None = None
        self.wanted = 0  # reasons that hold from the end of the request that is passing
        self.diverted = False  # requests take the general path
        # how it ends: `session`
        self.ending = False  # it takes no more requests, and ends when the last reply is out
        self.draining = False  # because the proxy shuts down
        self.nothing_due = False  # it ended when no reply was due, so the broker sends nothing more
        self.ended = False  # both sides are to be closed once their outboxes are empty
        self.reason: CloseReason | None = None
        self.detail = ""

    # -- what passes now ---------------------------------------------------------------------------

    @property
    def is_inside_request(self) -> bool:
        """Whether a request has begun or was read, and is not forwarded completely."""
        return self.request_left > 0 or self.pending is not None

    @property
    def is_between_requests(self) -> bool:
        """Whether the next byte begins a new request."""
        return not self.request_left and self.pending is None and self.gathered is None

    @property
    def is_gathering(self) -> bool:
        """Whether a request is being kept whole, and not all of it has arrived."""
        return self.request_left > 0 and self.request_mode == GATHER

    @property
    def request_streams(self) -> bool:
        """Whether the bytes of the passing request are forwarded to the broker."""
        return self.request_mode == STREAM

    @property
    def half_sent(self) -> ObservedExchange | None:
        """Return the request of which the client has not sent everything yet, while it streams."""
        return self.passing if self.request_left and self.request_mode == STREAM else None

    @property
    def gathered_bytes(self) -> int | None:
        """Return how many bytes of a request that is being kept whole have arrived; None if none is."""
        return len(self.gathered or b"") if self.is_gathering else None

    @property
    def keeps_off_fast_loop(self) -> bool:
        """Whether requests must not take the fast path, for another reason than a mute."""
        return self.ending or self.questions is not None or self.pending is not None

    def resume_later(
        self, exchange: ObservedExchange, judged: Verdict | PolicyFault | None
    ) -> None:
        """Let the general path apply a verdict when the bytes of the request are handled."""
        self.pending = Pending(exchange, judged)

    def ask(self, exchange: ObservedExchange, now_ms: int) -> Verdict:
        """Return the verdict of the policies on a request. Raises PolicyFault; then the request has ended."""
        if exchange.plan.request_path == paths.PASSES:
            return FORWARD
        self.judged = exchange
        return self.calls.ask(exchange, now_ms)

    def next_exchange_id(self) -> int:
        """Return the number of the next ObservedExchange."""
        self.exchange_ids += 1
        return self.exchange_ids

    def complete(
        self, exchange: Exchange, outcome: Outcome, now_ms: int, *, forwarded: bool = True
    ) -> None:
        """Tell the policies, the trace and the capture, once, how a request has ended."""
        if outcome is Outcome.NO_REPLY:
            self.unanswered_ms = now_ms
        self.calls.complete(exchange, outcome, now_ms, forwarded=forwarded, reason=self.reason)

    def excuse_broker(self, now_ms: int) -> None:
        """Count the broker's time for its reply from `now_ms`: it could not reply before."""
        self.replied_ms = now_ms

    # -- the event loop ----------------------------------------------------------------------------

    @property
    def paced(self) -> bool:
        """Whether bytes already read wait for the session's next turn (`resume`)."""
        return bool(self.client.muted & Mute.PACED)

    @property
    def hears_in_turns(self) -> bool:
        """Whether policies take a reply in turns; the next step is the next `from_broker`, maybe with no more bytes."""
        return bool(self.broker.muted & Mute.HEARING)

    def pace(self, unread: bytes) -> None:
        """End this turn: `unread` is kept, counted, until the next; requests of other clients wait for turns too."""
        self.shared.turns.labour_bytes = 0
        self.client.keep(unread)
        self.client.mute(Mute.PACED)
        self.ask_for_turn()

    def take_uses_outboxes(self) -> bool:
        """Return whether this read is not forwarded as it came, and forget it."""
        uses_outboxes, self.uses_outboxes = self.uses_outboxes, False
        return uses_outboxes

    def schedule(self) -> None:
        """Ask the event loop for a turn of this session."""
        self.shared.schedule(self)

    def ask_for_turn(self) -> None:
        """Ask for a turn of this session, because something happened outside its own reads."""
        self.shared.ask_for_turn(self)

    # -- memory ------------------------------------------------------------------------------------

    @property
    def claim(self) -> MemoryClaim:
        """Return the session's claim on the pool of requests, made now if there is none."""
        if self.known_claim is None:
            self.known_claim = MemoryClaim(self, self.shared)
        return self.known_claim

    @property
    def is_kept_waiting(self) -> bool:
        """Whether bytes wait for the broker, or the client is muted for another reason than backpressure."""
        return bool(self.broker.outbox or self.client.muted & ~Mute.BACKPRESSURE)

    def give_back_announced(self) -> None:
        """Release the announced bytes of a streamed request, because its last byte was forwarded."""
        claim = self.known_claim
        if claim is not None and claim.announced_bytes:
            self.shared.announced.give_back(claim)

    def give_back_head(self) -> None:
        """Release the memory that was reserved for a request head, because the head was read."""
        if self.known_claim is not None and self.known_claim.head_reserved:
            self.shared.reservations.give_back(self.known_claim)

    def give_back_claim(self) -> None:
        """Release the memory that was reserved for a request to be kept whole."""
        if self.known_claim is not None and self.known_claim.reserved_bytes:
            self.shared.reservations.give_back(self.known_claim)

    def leave_memory(self) -> None:
        """Stop waiting for memory, and release the memory that was reserved."""
        self.shared.unauthenticated.give_back(self)
        if self.known_claim is not None:
            self.shared.announced.leave(self.known_claim)
            self.shared.reservations.leave(self.known_claim)

    # -- outside of its own reads ------------------------------------------------------------------

    def end_and_ask_for_turn(self, reason: CloseReason, detail: str, now_ms: int) -> None:
        """End the session as `end` does."""
        self.end(reason, detail, now_ms)
        self.ask_for_turn()

    def fail_and_ask_for_turn(self, fault: Exception) -> None:
        """End this session because of a fault of our own or of a policy."""
        self.fail(fault, CloseReason.INTERNAL)
        self.ask_for_turn()

    def fail_request_and_ask_for_turn(self, fault: Exception) -> None:
        """End because of a fault at the request that begins or is passing."""
        self.fail_request(fault)
        self.ask_for_turn()

    # -- what only the whole session can do --------------------------------------------------------

    def become(self, peer: Peer) -> None:
        """Replace the peer, because more is known of the client: later requests are counted for the new peer.

        If its user has too many connections, the session keeps the old peer and ends.
        """
        raise NotImplementedError

    def end(self, reason: CloseReason, detail: str, now_ms: int) -> None:
        """Close both sides as soon as their outboxes are empty. Every exchange completes now."""
        raise NotImplementedError

    def end_after_replies(self, reason: CloseReason, detail: str = "") -> None:
        """Take no more requests; what is in flight is answered, then both sides are closed."""
        raise NotImplementedError

    def maybe_end(self) -> None:
        """Close both sides if an end was requested, no request is half sent and no reply is due."""
        raise NotImplementedError

    def fail(self, fault: Exception, blamed: CloseReason) -> None:
        """End this session, and no other, because of a fault. Settled bytes are still sent, except to a broker
        that caused the fault.
        """
        raise NotImplementedError

    def fail_request(self, fault: Exception) -> None:
        """End this session because of a fault at the request that begins or is passing. The replies to earlier
        requests, which the caller has forwarded, are still sent.
        """
        raise NotImplementedError

    # for the memory of all sessions, and for PlanBook

    def on_memory_refused(self) -> None:
        """Mute the client until there is memory for the next request."""
        raise NotImplementedError

    def on_memory_granted(self) -> None:
        """Unmute the client, because there is memory for its request."""
        raise NotImplementedError

    def watch_unsent(self) -> None:
        """Start timing bytes that the broker has not taken."""
        raise NotImplementedError

    def on_client_id(self, client_id: str) -> None:
        """Count later requests for this client id, which the client has sent."""
        raise NotImplementedError

    def sasl_now(self) -> SaslSide:
        """Return the part that handles the client's SASL requests, made now if this is the first."""
        raise NotImplementedError
