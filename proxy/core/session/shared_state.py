"""The data that all sessions of a process share: the chain, the pools, the topology, the timers, the counts.

Sessions see this class, and Engine adds the verbs of the app and the event loop, as Session does to Link. Nothing in it
knows of either. No I/O and no clock: the event loop sets the time of each step, which all code reads.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from proxy.core.broker_routes import BrokerRoutes, Routed
from proxy.core.connection_limits import ConnectionCounts
from proxy.core.memory.announced import AnnouncedBytes
from proxy.core.memory.pool import NO_BOUND, MemoryPool
from proxy.core.memory.read_sizes import ReadSizes
from proxy.core.memory.reply_reservations import MAX_REPLY_BYTES, ReplyReservations
from proxy.core.memory.reservations import Reservations
from proxy.core.memory.unauthenticated import UnauthenticatedBytes
from proxy.core.newcomers import Newcomers
from proxy.core.purgatory.purgatory import Purgatory
from proxy.core.purgatory.timers import Timers
from proxy.core.retirements import Retirements
from proxy.core.session.grace_times import Expired
from proxy.core.session.rewrites import Rewrites
from proxy.core.session.step_time import StepTime
from proxy.core.stats.meters import MeterBook
from proxy.core.stats.usage import UsageBook
from proxy.core.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from policies.chain import Chain
    from proxy.core.auth.sasl_server import SaslServer
    from proxy.core.observer import Observer
    from proxy.core.purgatory.timing_wheel import TimerEntry
    from proxy.core.session.channel import Channel
    from proxy.core.session.engine_options import EngineOptions
    from proxy.core.topology import Topology
    from proxy.core.turns import Scheduled

NEVER_US = 1 << 60
"""A time in microseconds that is never reached."""
WAIT_OUTCOMES = ("condition", "expired", "drained", "client_gone", "broker_gone", "closed")
"""How the wait of a held request ends: by its key, at its deadline, at a drain, when its client or its broker
disconnects, or when Sluice closes the connection for another reason."""


class SharingSession(Routed, Protocol):
    """A session, as the data sees it that all of them share: also a Scheduled, and a ReplyReader."""

    ready: bool
    uses_outboxes: bool
    handle: object
    turn_us: float
    client: Channel

    def crash(self, error: Exception) -> None:
        """End, because of an exception that no narrower handler caught."""

    def end_stuck(self, now_ms: int) -> None:
        """See ReplyReader."""


class SharedState(StepTime):
    """The shared state of one process. `now_ms`: the time of the last `advance`; `now_us`: the same in microseconds."""

    def __init__(
        self,
        sessions: Collection[SharingSession],
        topology: Topology,
        chain: Chain,
        observer: Observer,
        options: EngineOptions,
        now_ms: int,
    ) -> None:
        super().__init__(now_ms)
        self.sessions = sessions
        self.topology = topology
        self.chain = chain
        self.observer = observer
        self.keeps_traces = options.keeps_traces
        self.sample_every = options.sample_every
        self._sampled = 0
        self.slow_us = options.slow_ms * 1000 or NEVER_US
        self.meters = MeterBook(by_key=options.meters_by_key)
        self.capture = options.capture
        self.topic_usage = options.topic_usage
        self.usage = UsageBook(now_ms, observer.on_second)
        self.auth_failures = 0
        self.oauthbearer_claim = options.oauthbearer_claim
        self.sasl_server: SaslServer | None = None
        """Authenticates the clients of sessions that are opened from now on; None: the brokers do."""
        self.has_custody = False
        """Whether Sluice authenticates itself to the brokers: no SASL request of a client is forwarded."""
        self.measuring_until_ms = 0  # 0: only some sessions are
        self.request_max_bytes = options.request_max_bytes
        self.request_timeout_ms = options.request_timeout_ms
        self.graces = options.graces
        self.expired = Expired()
        self.rewrites = Rewrites(topology, options.pass_unknown)
        if self.topic_usage is not None:
            self.topic_usage.names = self.rewrites.topics
        limits = options.pool_limits
        self.slow_client_limits = limits.read_limits
        self.request_pool = self._pool(
            "requests", limits.request_bytes, 4 + options.request_max_bytes
        )
        self.reply_pool = self._pool("replies", limits.response_bytes, MAX_REPLY_BYTES)
        self.reply_reservations = ReplyReservations(self, self.reply_pool)
        self.reservations = Reservations(self.request_pool, limits.requests, limits.max_share)
        self.unauthenticated = UnauthenticatedBytes(self.request_pool, lambda: self.now_ms)
        self.announced = AnnouncedBytes(limits.announced_bytes)
        self.read_sizes = ReadSizes(self.request_pool, self.reply_pool, self.reservations)
        self.timers = Timers(now_ms, self.on_timer_failed)
        self.connections = ConnectionCounts()
        self.retirements = Retirements(self.timers, self.reservations)
        self.routes = BrokerRoutes(sessions, topology, self.timers, self.retirements, self)
        self.newcomers = Newcomers(self.timers, self.connections)
        self.holds = Purgatory(self.timers)
        self.completions = dict.fromkeys(WAIT_OUTCOMES, 0)
        self.turns = Turns()
        self.schedule = self.turns.add
        """Queue a session for a turn, in this step or a later one."""
        self.try_expect_early: Callable[[Scheduled], bool] = _never
        """Let the client's next event tell the session before its bytes are read; False: it cannot. Mutes that begin
        only then are cheaper (`proxy.core.session.mutes`). The event loop sets it."""

    def ask_for_turn(self, session: Scheduled) -> None:
        """Ask for a turn of a session, because something happened to it outside its own reads.

        Until then the bytes that are read of the session are appended to its outboxes.
        """
        session.uses_outboxes = True
        self.schedule(session)

    def sample_from(self) -> int:
        """Return how many requests of a new session pass before one is sampled: spread, to meet short sessions too."""
        self._sampled = (self._sampled + self.sample_every * 618 // 1000 + 1) % self.sample_every
        return self._sampled + 1

    def report(self, error: Exception) -> None:
        """Report a fault of our own, which costs one session, timer or client, to the observer."""
        with suppress(Exception):  # an observer's own fault ends nothing
            self.observer.on_internal_error(error)

    def on_timer_failed(self, entry: TimerEntry, error: Exception) -> None:
        """Handle a timer whose call raised: the session of its held request ends, if it has one; else report it."""
        session: SharingSession | None = getattr(entry, "owner", None)
        if session is not None and session in self.sessions:
            session.crash(error)
            self.ask_for_turn(session)
        else:
            self.report(error)

    def _pool(self, name: str, size_bytes: int, max_bytes: int) -> MemoryPool:
        pool = MemoryPool(size_bytes, within(size_bytes, max_bytes), now_ms=lambda: self.now_ms)
        pool.on_depleted = lambda: self.observer.on_pool_depleted(name)
        pool.on_recovered = lambda lasted_ms: self.observer.on_pool_recovered(name, lasted_ms)
        return pool


def _never(_session: Scheduled) -> bool:
    return False


def within(size_bytes: int, max_bytes: int) -> int:
    """Return the largest request that a pool of this size grants."""
    return max_bytes if size_bytes == NO_BOUND else min(size_bytes, max_bytes)
