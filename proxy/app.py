"""The only place where everything is put together: config in, a running proxy out.

Life: bind every port -> serve -> SIGTERM: stop listening, answer what is in flight, close gracefully, exit 0.
A second signal, or the drain's deadline, ends at once.
"""

from __future__ import annotations

import gc
import resource
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import structlog
import trio

from policies import registry
from policies.chain import Chain
from policies.settings import SettingsError
from proxy.config.sizing import budget_of
from proxy.core.bounds import Bounds
from proxy.core.delayed import Graces
from proxy.core.engine import Engine
from proxy.core.errors import CloseReason
from proxy.core.observer import Observer
from proxy.core.slow_senders import ReadLimits
from proxy.core.topology import Topology
from proxy.shell import files
from proxy.shell.clock import Clock
from proxy.shell.dialer import Dialer, DialError
from proxy.shell.driver import drive
from proxy.shell.heap import map_large_pieces
from proxy.shell.hub import Hub
from proxy.shell.listeners import Listeners
from proxy.shell.transport import PlainTransport
from proxy.telemetry import log
from proxy.telemetry.log import LogObserver
from wire import messages

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Hashable

    from proxy.config import Config
    from proxy.config.budget import Budget
    from proxy.core.session import Session

DESCRIPTORS_SPARE = 64
"""Kept for everything that is not a client's pair of sockets."""
DRAIN_LOOK_S = 0.02


class App:
    """One proxy. `run` returns the process's exit code."""

    def __init__(self, config: Config, budget: Budget | None = None) -> None:
        self._config = config
        self._budget = budget or budget_of(config)
        self._clock = Clock()
        self._log = structlog.get_logger()
        observer = self._observer = LogObserver(self._clock, self.call_at)
        ports = config.listen.node_ports()
        self._topology = Topology(config.listen.advertise, config.listen.port, ports, observer)
        entries = registry.build(config.policies, self)
        purgatory = config.purgatory
        self._chain = Chain(entries, observer)
        self._engine = Engine(
            self._topology,
            self._chain,
            observer,
            now_ms=self._clock(),
            request_max_bytes=config.limits.socket_request_max_bytes,
            request_timeout_ms=config.upstream.request_timeout_ms,
            pass_unknown=config.unknown_apis(),
            fixed_user=config.identity.user,
            graces=Graces(
                purgatory.produce_grace_ms, purgatory.fetch_grace_ms, purgatory.wait_most_ms
            ),
            purge_interval=purgatory.purge_interval_requests,
            bounds=_bounds(config, self._budget),
        )
        self._hub = Hub(self._engine, self._clock)
        self._dialer = Dialer(
            self._topology,
            config.upstream.addresses(),
            config.upstream.dial_timeout_ms / 1000,
        )
        self._ports = [(None, config.listen.port), *ports.items()]
        self._most_connections = _most_connections(config.limits.max_connections, len(self._ports))

    # -- what policies are given (policies.api.Services) -----------------------------------------

    def wake(self, key: Hashable) -> int:
        """Ask again whatever is held for this key."""
        return self._engine.wake(key)

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """A policy's alarm clock."""
        self._engine.timers.arm(at_ms, call)

    def reconsider(self) -> None:
        """A policy's wishes have changed."""
        self._engine.reconsider()

    def load(self, path: str) -> bytes | None:
        """What a policy has saved there."""
        return files.load(path)

    def save(self, path: str, data: bytes) -> None:
        """Keep this for a policy, in place of what was there."""
        files.save(path, data)

    async def run(self) -> int:
        """Serve until a signal ends it."""
        # Signals first: whoever sees a port open may send one.
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            listeners = Listeners(self._config.listen.address, self._ports)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(drive, self._hub, self._engine, self._clock)
                    if self._chain.entries:  # a first refusal must not wait for the codec
                        nursery.start_soon(trio.to_thread.run_sync, messages.prepare)
                    await self._serve_until(signals, listeners)
                    with trio.CancelScope() as draining:
                        nursery.start_soon(_on_next_signal, signals, draining.cancel)
                        await self._drain()
                    nursery.cancel_scope.cancel()
            finally:
                listeners.close()
                self._hub.close_all(CloseReason.DRAIN_TIMEOUT)
                self._hub.close()
                self._chain.close()
        self._log.info("stopped")
        return 0

    async def _serve_until(self, signals: AsyncIterator[int], listeners: Listeners) -> None:
        """Accept and serve until the first signal; then stop listening."""
        listen, budget = self._config.listen, self._budget
        self._log.info(
            "memory",
            requests_bytes=budget.request_bytes,
            replies_bytes=budget.response_bytes,
            most_bytes=budget.most_bytes,
            limit_bytes=budget.demand.limit_bytes,
        )
        self._log.info(
            "ready",
            listen=f"{listen.address}:{listen.port}",
            nodes=listen.nodes,
            upstream=",".join(self._config.upstream.bootstrap_servers),
        )
        async with trio.open_nursery() as serving:
            admit = partial(self._admit, serving)
            serving.start_soon(listeners.serve, admit, self._may_accept)
            await anext(signals)
            serving.cancel_scope.cancel()
        listeners.close()

    def _admit(self, serving: trio.Nursery, accepted: socket.socket, node_id: int | None) -> None:
        """A client is here: counted at once, so that the limit holds; then served by its own task."""
        try:
            client = PlainTransport(accepted)
            host, port = accepted.getpeername()[:2]
        except OSError:
            accepted.close()  # gone already
            return
        session = self._engine.connect(host, port, node_id)
        if session is None:
            client.close()
        else:
            serving.start_soon(self._serve, session, client, node_id)

    async def _serve(self, session: Session, client: PlainTransport, node_id: int | None) -> None:
        """One client, until the hub has it."""
        attached = False
        self._hub.arriving += 1
        try:
            broker = await self._dialer.reach(node_id)
            attached = True
            self._hub.attach(session, client, broker)
        except DialError as error:
            session.end(error.reason, error.detail, self._clock())
        except Exception as error:  # noqa: BLE001 - one client's connection must not cost the others theirs
            self._observer.on_internal_error(error)
        finally:
            self._hub.arriving -= 1
            if not attached:
                client.close()
                session.release(self._clock())

    def _may_accept(self) -> bool:
        return len(self._engine.sessions) < self._most_connections

    async def _drain(self) -> None:
        """Answer what is in flight and let every client go, within the deadline."""
        timeout_ms = self._config.drain.timeout_ms
        self._log.info("draining", sessions=len(self._engine.sessions), timeout_ms=timeout_ms)
        with trio.move_on_after(timeout_ms / 1000):
            self._engine.drain()
            self._hub.attend()
            while self._hub.open_sockets:
                # The driver may sleep, and knows nothing of the timers that were set here.
                self._hub.step(0)
                await trio.sleep(DRAIN_LOOK_S)


async def _on_next_signal(signals: AsyncIterator[int], call: Callable[[], None]) -> None:
    async for _ in signals:
        call()


def run(config: Config) -> int:
    """Run the proxy until a signal ends it; the process's exit code.

    Raises SettingsError when it may need more memory than its container has.
    """
    budget = budget_of(config)
    if problems := tuple(budget.problems()):
        raise SettingsError(problems)
    log.configure(config.log.level, config.log.format)
    map_large_pieces()
    # Every connection is a few long-lived objects; collecting them again and again costs latency.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    sys.setswitchinterval(0.0005)
    try:
        return trio.run(App(config, budget).run)
    except OSError as error:  # a port that is taken; what happens later is caught where it happens
        structlog.get_logger().error("cannot_start", reason=str(error))
        return 1


def try_brokers(config: Config) -> list[tuple[str, str | None]]:
    """Dial every bootstrap broker once: (HOST:PORT, None or why not)."""

    async def try_each() -> list[tuple[str, str | None]]:
        topology = Topology("", 0, {}, Observer())
        timeout_s = config.upstream.dial_timeout_ms / 1000
        return await Dialer(topology, config.upstream.addresses(), timeout_s).try_each()

    return trio.run(try_each)


def _bounds(config: Config, budget: Budget) -> Bounds:
    memory = config.memory
    limits = ReadLimits(memory.request_read_timeout_ms, memory.request_min_bytes_per_second)
    return Bounds(
        request_bytes=budget.request_bytes,
        response_bytes=budget.response_bytes,
        requests=memory.queued_max_requests,
        share_most=config.share_most(),
        read_limits=limits,
    )


def _most_connections(wanted: int, ports: int) -> int:
    """As many clients as there are descriptors for (two each), or as configured if that is fewer."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # some systems refuse an unlimited soft limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = max(1, (soft - DESCRIPTORS_SPARE - ports) // 2)
    return min(wanted, possible) if wanted else possible
