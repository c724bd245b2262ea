"""The engine creates the sessions of a process, passes them the time, reloads their limits and drains them.

It does no I/O and reads no clock: the event loop calls `advance(now_ms)` once per step, and all code uses that time.
"""

from __future__ import annotations

from functools import partial
from sys import intern
from typing import TYPE_CHECKING

from policies.api import ANONYMOUS, Need, Peer
from proxy.core.connection_limits import Refusal
from proxy.core.errors import CertificateExpiredError, CloseReason
from proxy.core.memory.reply_reservations import MAX_REPLY_BYTES
from proxy.core.purgatory.watch_keys import watch_key
from proxy.core.session import mutes, sampling
from proxy.core.session.engine_options import EngineOptions
from proxy.core.session.held_moves import HeldMoves
from proxy.core.session.plan import SASL
from proxy.core.session.policy_calls import PolicyCalls
from proxy.core.session.reauthentication import Reauthentication
from proxy.core.session.session import Session
from proxy.core.session.shared_state import SharedState, within
from proxy.core.session_sweep import SessionSweep
from wire.apis import OFFERED, ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Hashable

    from policies.api import QuotaViolation
    from policies.chain import Chain
    from proxy.core.auth.sasl_server import SaslServer
    from proxy.core.connection_limits import ConnectionLimits
    from proxy.core.observer import Observer
    from proxy.core.purgatory.timers import Timer
    from proxy.core.session.channel_throttle import ChannelThrottle
    from proxy.core.session.reauthentication import Custodian
    from proxy.core.topology import Topology

REVIEWED_AT_ONCE = 256
"""Throttled sessions that one step reviews after a change of limits."""
MEASURE_MS = 10_000
"""How long each call of a policy is measured after a slow step."""


class Engine(SharedState):
    """What the app and the event loop do with all sessions of a process: verbs over the data that they share."""

    def __init__(
        self,
        topology: Topology,
        chain: Chain,
        observer: Observer,
        options: EngineOptions | None = None,
        *,
        now_ms: int = 0,
    ) -> None:
        options = options or EngineOptions()
        self.sessions: set[Session] = set()
        super().__init__(self.sessions, topology, chain, observer, options, now_ms)
        fixed = options.fixed_user
        self._user = (fixed, "fixed", "config") if fixed else (ANONYMOUS, "none", "")
        self.calls = PolicyCalls(self)
        self.moves = HeldMoves(self.timers)
        self._renewals: dict[Session, Reauthentication] = {}
        self._ends: dict[Session, Timer] = {}  # of those whose certificates end
        self.sweep = SessionSweep(self.sessions, self.timers, self.connections, self.retirements)
        self._on_released = self._release  # one bound method for all sessions
        self._session_ids = 0
        self._ticks: dict[int, Timer] = {}  # by their interval in ms
        self._apply_chain()
        self._start_ticks()

    # -- sessions --------------------------------------------------------------------------------

    def admits(self, host: str, port: int, node_id: int | None, now_ms: int) -> bool:
        """Return whether the limits of its address let a client connect now. A refusal is reported."""
        refusal = self.connections.maybe_refuse(host, now_ms)
        if refusal is None:
            return True
        self.refuse(host, port, node_id, *refusal)
        return False

    def refuse(
        self, host: str, port: int, node_id: int | None, reason: CloseReason, detail: str
    ) -> None:
        """Report a client that has no session, and never gets one."""
        self._session_ids += 1
        self.observer.on_session_closed(
            Peer(self._session_ids, host, port, node_id), reason, detail
        )

    def connect(
        self,
        host: str,
        port: int,
        node_id: int | None,
        tls_user: str = "",
        ends_ms: int | None = None,
        *,
        now_ms: int = 0,
    ) -> Session | None:
        """Return a session for a client at host:port that wants broker `node_id`; None if it is refused, because its
        user has too many connections or by a policy.

        `tls_user` is the user of its certificate, "" without one, and the session takes no more requests at `ends_ms`;
        `now_ms` is the time, if later than the last `advance`.
        """
        now_ms = max(now_ms, self.now_ms)
        self._session_ids += 1
        user, source, proof = (tls_user, "tls", "tls") if tls_user else self._user
        peer = Peer(self._session_ids, intern(host), port, node_id, "", user, source, proof)
        refusal = self.connections.join(peer)
        if refusal is None and self.chain.on_connect(peer, now_ms) is not None:
            self.connections.leave(peer)
            refusal = Refusal(CloseReason.POLICY, "refused at connect")
        if refusal is not None:
            self.observer.on_session_closed(peer, *refusal)
            return None
        session = Session(self, self.calls, peer)
        session.on_released = self._on_released
        session.route = None
        session.opened_ms = now_ms
        self.sessions.add(session)
        self.newcomers.add(session, now_ms)
        if ends_ms is not None:
            self._ends[session] = self.timers.arm(ends_ms, partial(_expire, session))
        if not self.sweep.runs:
            self.sweep.restart(now_ms)
        self.observer.on_session_opened(peer)
        return session

    def renew(
        self,
        session: Session,
        lifetime_ms: int,
        address: str,
        custodian: Custodian,
        now_ms: int,
    ) -> None:
        """Renew Sluice's own authentication at the session's broker, which holds for `lifetime_ms` from `now_ms` on."""
        renewal = self._renewals[session] = Reauthentication(session, custodian, address)
        renewal.begin(lifetime_ms, now_ms)

    def _release(self, session: Session, now_ms: int) -> None:
        """Remove a session that is closed on both sides, and report its end."""
        renewal = self._renewals.pop(session, None)
        if renewal is not None:
            renewal.release()
        if session in self.sessions:
            self._forget(session)
            self.usage.leave(session.usage)
            self.chain.on_disconnect(session.peer, now_ms)
            reason = session.reason or CloseReason.INTERNAL
            self.observer.on_session_closed(session.peer, reason, session.detail)

    def forget(self, session: Session) -> None:
        """Count a session off that is closed on both sides, or could not be released."""
        if session in self.sessions:
            self._forget(session)

    def _forget(self, session: Session) -> None:
        self.sessions.remove(session)
        self.retirements.discard(session)
        if (end := self._ends.pop(session, None)) is not None:
            end.cancel()
        self.routes.discard(session)
        self.newcomers.discard(session)
        self.connections.leave(session.peer)

    def limit_connections(self, limits: ConnectionLimits) -> None:
        """Set the limits of connections. Connections that are open already stay; deadlines that run stay too."""
        self.connections.limits = limits
        self.sweep.restart(self.now_ms)

    def drain(self) -> None:
        """Accept no new requests; each session ends as soon as its requests in flight are answered."""
        for session in tuple(self.sessions):
            session.drain()
            self.ask_for_turn(session)

    def authenticate_clients(self, server: SaslServer) -> None:
        """Let the clients of sessions that are opened from now on authenticate to Sluice itself."""
        self.sasl_server = server
        self.rewrites.served = SASL

    def disconnect_removed_users(self, users: Container[str]) -> int:
        """End the sessions whose user has authenticated to Sluice and is not in `users`; return their number."""
        removed = 0
        for session in tuple(self.sessions):
            sasl = session.sasl
            if sasl is not None and sasl.user and sasl.user not in users:
                removed += 1
                detail = f"user {sasl.user!r} is not in the users file"
                session.end_and_ask_for_turn(CloseReason.USER_REMOVED, detail, self.now_ms)
        return removed

    # -- memory ----------------------------------------------------------------------------------

    def limit_requests(self, max_bytes: int) -> None:
        """Set the maximum request size. It applies to requests that begin from now on, and to grants of the pool."""
        self.request_max_bytes = max_bytes
        self.resize(self.request_pool.size_bytes, self.reply_pool.size_bytes)
        self.forget_plans()

    def resize(self, request_bytes: int, response_bytes: int) -> None:
        """Resize the pools (NO_BOUND: no limit). Memory in use stays allocated; waiting clients are served again."""
        for pool, size_bytes, max_bytes in (
            (self.request_pool, request_bytes, 4 + self.request_max_bytes),
            (self.reply_pool, response_bytes, MAX_REPLY_BYTES),
        ):
            pool.resize(size_bytes, within(size_bytes, max_bytes))
        self.read_sizes.set_near_limits()
        self.reservations.on_resize()
        self.reply_reservations.serve()

    # -- time ------------------------------------------------------------------------------------

    def advance(self, now_ms: int, now_us: int = 0) -> None:
        """Set the clock to `now_ms` and fire the timers that are due."""
        self.now_ms = now_ms
        self.now_us = now_us or now_ms * 1000
        if now_ms >= self.usage.ends_ms:
            self._end_second(now_ms)
        self.timers.advance(now_ms)

    def fire(self, now_ms: int) -> None:
        """Fire the timers that are due. The event loop calls this after it has read all bytes received so far."""
        if now_ms >= self.usage.ends_ms:
            self._end_second(now_ms)
        self.timers.advance(now_ms)

    def _end_second(self, now_ms: int) -> None:
        try:
            self.usage.roll(now_ms)
        except Exception as error:  # noqa: BLE001 - one second's figures are lost, and no more
            self.report(error)

    def next_ms(self) -> int | None:
        """Return when to `advance` next, in ms; None when no timer is armed and no client is connected."""
        due_ms = self.timers.next_ms()
        if self.usage.keys and (due_ms is None or due_ms > self.usage.ends_ms):
            return self.usage.ends_ms
        return due_ms

    def on_slow_step(self, took_ms: int) -> None:
        """Report a step of the event loop that took too long. If policies judge requests, each of their calls is
        measured for MEASURE_MS, so that the next slow call can be attributed to its policy.
        """
        judges = self.chain.active_entries()
        if not judges or not self.chain.hook_runner.measures:
            return
        self.observer.on_slow_step(took_ms, judges)
        if not self.measuring_until_ms:
            self.forget_plans()
            self.timers.arm(self.now_ms + MEASURE_MS, self._stop_measuring)
        self.measuring_until_ms = self.now_ms + MEASURE_MS

    def _stop_measuring(self, now_ms: int) -> None:
        if now_ms < self.measuring_until_ms:  # another step was slow meanwhile
            self.timers.arm(self.measuring_until_ms, self._stop_measuring)
            return
        self.measuring_until_ms = 0
        self.forget_plans()

    def _start_ticks(self) -> None:
        """Tick for the present chain, and no more for the one before it."""
        for timer in self._ticks.values():
            timer.cancel()
        self._ticks = {
            every_ms: self.timers.arm(self.now_ms + every_ms, partial(self._tick, every_ms))
            for every_ms in sorted(self.chain.ticks)
        }

    def _tick(self, every_ms: int, now_ms: int) -> None:
        chain = self.chain
        for entry in chain.ticks[every_ms]:
            chain.tick(entry, now_ms)
        if self.chain is chain:  # else a policy's tick has replaced it
            self._ticks[every_ms] = self.timers.arm(
                now_ms + every_ms, partial(self._tick, every_ms)
            )

    # -- watch keys ------------------------------------------------------------------------------

    def wake(self, key: Hashable) -> int:
        """Evaluate all requests held for this key again, now. Return how many of them completed."""
        return self.holds.check_and_complete(watch_key(key), self.now_ms)

    def reconsider(self) -> None:
        """Read again what the policies need to see; it applies to requests that begin from now on."""
        self.chain.reconsider()
        self._apply_chain()
        self.forget_plans()

    def review_throttles(self, until_ms: Callable[[Peer, QuotaViolation], float]) -> None:
        """End or shorten the throttles that a policy's new limits no longer justify, REVIEWED_AT_ONCE per ms."""
        throttled = [
            (session, session.throttle)
            for session in self.sessions
            if session.throttle is not None and session.throttle.lasts(self.now_ms)
        ]

        self._review(throttled, until_ms, self.now_ms)

    def _review(
        self,
        throttled: list[tuple[Session, ChannelThrottle]],
        until_ms: Callable[[Peer, QuotaViolation], float],
        now_ms: int,
    ) -> None:
        part = throttled[-REVIEWED_AT_ONCE:]
        del throttled[-REVIEWED_AT_ONCE:]
        for session, throttle in part:
            why = throttle.by
            if why is not None and throttle.lasts(now_ms):
                mutes.shorten(session, until_ms(session.peer, why), now_ms)
        if throttled:
            self.timers.arm(now_ms + 1, partial(self._review, throttled, until_ms))

    def forget_plans(self) -> None:
        """Drop all cached plans: requests that begin from now on get plans made from the current settings."""
        for session in self.sessions:
            session.plans.clear()

    def adopt_chain(self, chain: Chain, gone: Collection[str] = ()) -> None:
        """Replace the policy chain, also for held requests; the wait of those held by a policy in `gone` ends.

        Before the next `fire`, the caller must let each new policy `adopt` the state of the old one of its name.
        """
        self.chain = chain
        self._apply_chain()
        self.forget_plans()
        held = [session.held for session in self.sessions if session.held is not None]
        self.moves.begin(held, chain, gone, self.now_ms)
        self._start_ticks()

    def resample(self, every: int) -> None:
        """Sample one request in `every` from now on; 0: none."""
        self.sample_every = every
        for session in self.sessions:
            sampling.resample(session, every)

    def end_capture(self) -> None:
        """Stop the capture, except for requests in flight; sessions may use the fast loop again."""
        if self.capture is not None and self.capture.open:
            self.capture.open = False
            self.forget_plans()

    def _apply_chain(self) -> None:
        self.rewrites.offered = self.chain.offered()
        self.rewrites.hidden = self.chain.hidden()
        hooks = {key: self.chain.hooks(key) for key in OFFERED}
        needs_body = any(
            each.need is Need.TOPICS
            or (each.need > Need.HEADER and key in {ApiKey.PRODUCE, ApiKey.FETCH})
            or each.hears_body
            for key, each in hooks.items()
        )
        wanted = needs_body or self.keeps_traces or self.topic_usage is not None
        self.rewrites.want_topic_names(wanted=wanted)


def _expire(session: Session, _now_ms: int) -> None:
    fault = CertificateExpiredError("the client's certificate has ended")
    session.fail_request_and_ask_for_turn(fault)
