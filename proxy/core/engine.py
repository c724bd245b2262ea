"""What all sessions of a process share: the chain, the pools, the topology, the timers.

No I/O and no clock: the event loop calls `advance(now_ms)` once per step, and everything reads the time it was given.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from itertools import islice
from sys import intern
from typing import TYPE_CHECKING

from policies.api import ANONYMOUS, Need, Peer
from policies.chain import Chain, Hooks
from proxy.core.errors import CloseReason
from proxy.core.memory.announced import AnnouncedBytes
from proxy.core.memory.pool import NO_BOUND, MemoryPool
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.memory.read_limits import Reads
from proxy.core.memory.reply_reservations import MAX_REPLY_BYTES, ReplyReservations
from proxy.core.memory.reservations import Reservations
from proxy.core.purgatory.purgatory import Purgatory
from proxy.core.purgatory.timers import Timers
from proxy.core.purgatory.watch_keys import watch_key
from proxy.core.session.broker_waits import Expired, GraceTimes
from proxy.core.session.held_moves import HeldMoves
from proxy.core.session.held_request import OUTCOMES
from proxy.core.session.session import Session
from proxy.core.stats.meters import MeterBook
from proxy.core.stats.usage import UsageBook
from wire import addresses, metadata, versions
from wire.apis import OFFERED, ApiKey
from wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping

    from policies.api import QuotaViolation
    from proxy.core.observer import Observer
    from proxy.core.purgatory.timing_wheel import TimerEntry
    from proxy.core.session.ending import SessionEnd
    from proxy.core.session.plan import Rewrite
    from proxy.core.session.state import SessionState
    from proxy.core.stats.capture import Capture
    from proxy.core.stats.topic_usage import TopicUsage
    from proxy.core.topology import Topology
    from wire.apis import Api

NEVER = 1 << 60
"""So many microseconds: never."""
REVIEWED_AT_ONCE = 256
"""Throttled sessions that one step reviews after a change of limits."""
MEASURE_MS = 10_000
"""How long each call of a policy is measured after a slow step."""
MEASURED_EVERY = 16
"""Of so many sessions one has its policies measured always."""
MAX_TOPICS = 100_000
"""Topic names remembered; beyond that the cache begins anew."""


class Engine:
    """One per process. `now_ms` is the time of the last `advance`."""

    def __init__(
        self,
        topology: Topology,
        chain: Chain,
        observer: Observer,
        *,
        now_ms: int = 0,
        request_max_bytes: int = 104857600,
        request_timeout_ms: int = 0,
        pass_unknown: Collection[int] = (),
        fixed_user: str = "",
        graces: GraceTimes | None = None,
        purge_interval: int = 1000,
        keeps_traces: bool = False,
        sample_every: int = 0,
        slow_ms: int = 0,
        meters_by_key: bool = False,
        capture: Capture | None = None,
        topic_usage: TopicUsage | None = None,
        bounds: PoolLimits | None = None,
    ) -> None:
        self.topology = topology
        self.chain = chain
        self.observer = observer
        self.now_ms = now_ms
        self.now_us = now_ms * 1000
        """The same, finer: for what is measured."""
        self.keeps_traces = keeps_traces
        self.sample_every = sample_every
        self.slow_us = slow_ms * 1000 or NEVER
        self.meters = MeterBook(by_key=meters_by_key)
        self.capture = capture
        self.topic_usage = topic_usage
        self.usage = UsageBook(now_ms, observer.on_second)
        self.auth_failures = 0
        self.measuring_until_ms = 0  # 0: only some sessions are
        self._sampled = 0
        self.request_max_bytes = request_max_bytes
        self.request_timeout_ms = request_timeout_ms
        self.graces = graces or GraceTimes()
        self.expired = Expired()
        self.offered = OFFERED
        self.pass_unknown = frozenset(pass_unknown)
        self._user = (fixed_user, "fixed") if fixed_user else (ANONYMOUS, "none")
        bounds = bounds or PoolLimits()
        self.slow_client_limits = bounds.read_limits
        self.request_pool = self._pool("requests", bounds.request_bytes, 4 + request_max_bytes)
        self.reply_pool = self._pool("replies", bounds.response_bytes, MAX_REPLY_BYTES)
        self.reply_reservations = ReplyReservations(self, self.reply_pool)
        self.reservations = Reservations(self.request_pool, bounds.requests, bounds.max_share)
        self.announced = AnnouncedBytes(bounds.announced_bytes)
        self.read_limits = Reads(self.request_pool, self.reply_pool, self.reservations)
        self.timers = Timers(now_ms, self._timer_failed)
        self.moves = HeldMoves(self.timers)
        self.holds = Purgatory("HeldRequest", self.timers, purge_interval)
        self.completions = dict.fromkeys(OUTCOMES, 0)
        self.sessions: set[SessionEnd] = set()
        self.ready: deque[SessionState] = deque()
        """Sessions that wait for the event loop, each once: see `schedule`."""
        self.topics: dict[bytes, str] = {}
        self.names_unread = 0
        """Metadata replies whose topic names could not be read."""
        self.no_hooks = Hooks()
        self._session_ids = 0
        self._rewrites: dict[int, Rewrite | None] = {}
        self._look_at_chain()
        for every_ms in sorted(chain.ticks):
            self._tick(chain, every_ms)

    # -- sessions --------------------------------------------------------------------------------

    def connect(self, host: str, port: int, node_id: int | None) -> Session | None:
        """A client has connected from there, for that broker; None when a policy refuses it."""
        self._session_ids += 1
        user, source = self._user
        peer = Peer(
            self._session_ids, intern(host), port, node_id, user=user, principal_source=source
        )
        if self.chain.on_connect(peer, self.now_ms) is not None:
            self.observer.on_session_closed(peer, CloseReason.POLICY, "refused at connect")
            return None
        session = Session(self, peer)
        self.sessions.add(session)
        self.observer.on_session_opened(peer)
        return session

    def release(self, session: SessionEnd, now_ms: int) -> None:
        """A session is closed on both sides."""
        if session in self.sessions:
            self.sessions.remove(session)
            self.usage.leave(session.usage)
            self.chain.on_disconnect(session.peer, now_ms)
            reason = session.reason or CloseReason.INTERNAL
            self.observer.on_session_closed(session.peer, reason, session.detail)

    def attend(self, session: SessionState) -> None:
        """Something happened to a session outside its own reads: the event loop must look at it.

        Until the event loop does, what is read of the session goes behind what stands in its outboxes.
        """
        session.attention = True
        self.schedule(session)

    def schedule(self, session: SessionState) -> None:
        """The event loop gives this session a turn, first come first served, in this step or a later one."""
        if not session.ready:
            session.ready = True
            self.ready.append(session)

    def drain(self) -> None:
        """No new requests: every session ends as soon as what is in flight is answered."""
        for session in tuple(self.sessions):
            session.drain()
            self.attend(session)

    def report(self, error: Exception) -> None:
        """A fault of our own, which costs one session, timer or client: the observer hears of it."""
        with suppress(Exception):  # an observer's own fault ends nothing
            self.observer.on_internal_error(error)

    # -- memory ----------------------------------------------------------------------------------

    def limit_requests(self, max_bytes: int) -> None:
        """Set the largest request. Requests that begin from now on are judged by it, and so is what the pool grants."""
        self.request_max_bytes = max_bytes
        self.resize(self.request_pool.size_bytes, self.reply_pool.size_bytes)
        self.forget_plans()

    def resize(self, request_bytes: int, response_bytes: int) -> None:
        """Other sizes for the pools (NO_BOUND: none). What is held stays; who waits is looked at again."""
        for pool, size_bytes, max_bytes in (
            (self.request_pool, request_bytes, 4 + self.request_max_bytes),
            (self.reply_pool, response_bytes, MAX_REPLY_BYTES),
        ):
            pool.resize(size_bytes, _within(size_bytes, max_bytes))
        self.read_limits.set_backpressure()
        self.reservations.look_again()
        self.reply_reservations.serve()

    def _pool(self, name: str, size_bytes: int, max_bytes: int) -> MemoryPool:
        pool = MemoryPool(size_bytes, _within(size_bytes, max_bytes), now_ms=lambda: self.now_ms)
        pool.on_depleted = lambda: self.observer.on_pool_depleted(name)
        pool.on_recovered = lambda lasted_ms: self.observer.on_pool_recovered(name, lasted_ms)
        return pool

    # -- time ------------------------------------------------------------------------------------

    def advance(self, now_ms: int, now_us: int = 0) -> None:
        """The clock goes on, and what is due fires."""
        self.now_ms = now_ms
        self.now_us = now_us or now_ms * 1000
        self.fire(now_ms)

    def fire(self, now_ms: int) -> None:
        """Fire what is due. The event loop does so when it has read what had come by then."""
        if now_ms >= self.usage.ends_ms:
            try:
                self.usage.roll(now_ms)
            except Exception as error:  # noqa: BLE001 - one second's figures are lost, and no more
                self.report(error)
        self.timers.advance(now_ms)

    def _timer_failed(self, entry: TimerEntry, error: Exception) -> None:
        """A timer's call has raised: the timer is gone, and its session (of a held request) ends."""
        session = getattr(entry, "session", None)
        if isinstance(session, Session):
            session.crash(error)
            self.attend(session)
        else:
            self.report(error)

    def next_ms(self) -> int | None:
        """When to `advance` next; None when nothing is waiting, and nobody is connected."""
        due_ms = self.timers.next_ms()
        if self.usage.keys and (due_ms is None or due_ms > self.usage.ends_ms):
            return self.usage.ends_ms
        return due_ms

    def on_slow_step(self, took_ms: int) -> None:
        """A step of the event loop has taken too long. If policies judge requests, each of their calls is measured for
        MEASURE_MS: which one it was is known as soon as it happens again.
        """
        judges = self.chain.active_entries()
        if not judges or not self.chain.hook_runner.measures:
            return
        self.observer.on_slow_step(took_ms, judges)
        if not self.measuring_until_ms:
            self.forget_plans()
            self.timers.arm(self.now_ms + MEASURE_MS, self._stop_measuring)
        self.measuring_until_ms = self.now_ms + MEASURE_MS

    def measures(self, session_id: int) -> bool:
        """Whether the policies are measured at this session's requests: at all while a slow hook is looked for, else
        at those of every MEASURED_EVERY-th session.
        """
        return self.measuring_until_ms != 0 or session_id % MEASURED_EVERY == 0

    def _stop_measuring(self, now_ms: int) -> None:
        if now_ms < self.measuring_until_ms:  # another step was slow meanwhile
            self.timers.arm(self.measuring_until_ms, self._stop_measuring)
            return
        self.measuring_until_ms = 0
        self.forget_plans()

    def sample_from(self) -> int:
        """How many requests of a new session pass before one is sampled: spread, so that short ones are met too."""
        self._sampled = (self._sampled + self.sample_every * 618 // 1000 + 1) % self.sample_every
        return self._sampled + 1

    def _tick(self, chain: Chain, every_ms: int) -> None:
        def tick(now_ms: int) -> None:
            if self.chain is chain:
                for entry in chain.ticks[every_ms]:
                    chain.tick(entry, now_ms)
                self.timers.arm(now_ms + every_ms, tick)

        self.timers.arm(self.now_ms + every_ms, tick)

    # -- watch keys ------------------------------------------------------------------------------

    def wake(self, key: Hashable) -> int:
        """Whatever is held for this key is asked again, now; how many that were."""
        return self.holds.check_and_complete(watch_key(key), self.now_ms)

    def reconsider(self) -> None:
        """A policy's wishes have changed: what begins from now on is judged by them."""
        self.chain.reconsider()
        self._look_at_chain()
        self.forget_plans()

    def review_throttles(self, until_ms: Callable[[Peer, QuotaViolation], float]) -> None:
        """A policy's limits have changed: end or shorten the throttles that no longer hold, a part at a time."""
        throttled = [s for s in self.sessions if s.throttle_timer is not None]

        def review(now_ms: int) -> None:
            part = throttled[-REVIEWED_AT_ONCE:]
            del throttled[-REVIEWED_AT_ONCE:]
            for session in part:
                why = session.throttled_by
                if why is not None and session.throttle_timer is not None:
                    session.shorten_throttle(until_ms(session.peer, why), now_ms)
            if throttled:
                self.timers.arm(now_ms + 1, review)

        review(self.now_ms)

    def forget_plans(self) -> None:
        """Something that plans are made of has changed: what begins from now on gets new ones."""
        for session in self.sessions:
            session.plans.clear()

    def adopt_chain(self, chain: Chain, gone: Collection[str] = ()) -> None:
        """Another chain is asked from now on, by held requests too; those whose holder is `gone` go their way.

        The caller has the policies `adopt` their namesakes' before the next `fire`.
        """
        self.chain = chain
        self._look_at_chain()
        self.forget_plans()
        held = [session.held for session in self.sessions if session.held is not None]
        self.moves.begin(held, chain, gone, self.now_ms)
        for every_ms in sorted(chain.ticks):
            self._tick(chain, every_ms)

    def resample(self, every: int) -> None:
        """From now on one request in `every` is sampled; 0: none."""
        self.sample_every = every
        for session in self.sessions:
            session.samples = every != 0
            session.sample_left = self.sample_from() if every else 0

    def end_capture(self) -> None:
        """No more requests are captured but those in flight; the fast loop is back."""
        if self.capture is not None and self.capture.open:
            self.capture.open = False
            self.forget_plans()

    # -- what plans are made of ------------------------------------------------------------------

    def rewrite_for(self, api: Api) -> Rewrite | None:
        """What must be changed in this API's responses, if anything; one closure per API version."""
        kind = api.key << 16 | api.version
        if kind not in self._rewrites:
            self._rewrites[kind] = self._make_rewrite(api)
        return self._rewrites[kind]

    def lead_for(self, api: Api) -> Rewrite | None:
        """What must be changed in this API's responses, if it all stands in their first part."""
        return self._make_rewrite(api, names=False) if api.key in addresses.LEADING_APIS else None

    def _look_at_chain(self) -> None:
        keys = (ApiKey.PRODUCE, ApiKey.FETCH)
        looked_into = any(self.chain.hooks(key).need > Need.HEADER for key in keys)
        self.wants_topic_names = looked_into or self.keeps_traces or self.topic_usage is not None
        self._rewrites.clear()

    def _make_rewrite(self, api: Api, *, names: bool = True) -> Rewrite | None:
        if api.key == ApiKey.API_VERSIONS:
            return lambda buf, start, end: versions.narrow(
                buf, start, end, api.version, self.offered, self.pass_unknown
            )
        rewriter = addresses.rewriter(api)
        if rewriter is None:
            return None
        # Where controllers are named their addresses are hidden, and nothing is learnt from them.
        learns = api.key in addresses.LISTENER_APIS
        advertise = self.topology.advertise if learns else self.topology.conceal
        if names and api.key == ApiKey.METADATA and self.wants_topic_names:

            def learn_and_rewrite(buf: bytearray, start: int, end: int) -> bytes | None:
                self._learn_topics(buf, start, end, api)
                return rewriter(buf, start, end, advertise)

            return learn_and_rewrite
        return lambda buf, start, end: rewriter(buf, start, end, advertise)

    def _learn_topics(self, buf: bytearray, start: int, end: int, api: Api) -> None:
        if api.version < 10:
            return
        try:
            learned = metadata.topic_names(buf, start, end, api)
        except WireError:  # the reply passes all the same, if its brokers can be read
            self.names_unread += 1
            return
        self.learn(learned)

    def learn(self, learned: Mapping[bytes, str]) -> None:
        """Topic names that were read in passing."""
        if len(self.topics) + len(learned) > MAX_TOPICS:
            self.topics.clear()
        self.topics.update(islice(learned.items(), MAX_TOPICS))


def _within(size_bytes: int, max_bytes: int) -> int:
    return max_bytes if size_bytes == NO_BOUND else min(size_bytes, max_bytes)
