"""Builds a proxy from its configuration and runs it.

- It binds every port, then serves. On SIGTERM it stops listening, answers requests in flight, closes gracefully and
  exits with 0. A second signal, or the deadline of the drain, ends it at once.
- SIGHUP reloads the configuration and reopens the files of the log. A swap of the configuration's Kubernetes volume
  reloads it too.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

import structlog
import trio

from policies.registry import digests
from policies.validation import SettingsError
from proxy.admin import default_socket
from proxy.client_authentication import ClientAuthentication
from proxy.config.budget import budget_of
from proxy.config.small_files import FileError
from proxy.config.volume import ConfigVolume
from proxy.core.errors import CloseReason
from proxy.dynamic_config import dynamic_settings
from proxy.engine_settings import make_engine
from proxy.host_port import host_port
from proxy.policy_host.services import PolicyServices
from proxy.reload import Reloader, ReloadRunningError
from proxy.shell import hangup
from proxy.shell.acceptor import Acceptor
from proxy.shell.broker_dials import BrokerDials
from proxy.shell.clock import Clock
from proxy.shell.descriptors import connection_limit
from proxy.shell.dialer import Dialer
from proxy.shell.driver import drive, nudge
from proxy.shell.event_loop import EventLoop
from proxy.shell.listeners import Listeners
from proxy.shell.malloc import map_large_pieces, return_freed_memory
from proxy.telemetry import log, uncaught
from proxy.telemetry.setup import Telemetry
from proxy.telemetry.traces.resource import TracesError
from proxy.tls.setup import Tls
from proxy.upstream_credentials import TokenFetch, custody_of
from wire import codec

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from policies.api import EffectiveQuota
    from proxy.admin.default_socket import AdminSocket
    from proxy.admin.service import AdminService
    from proxy.config import Config
    from proxy.config.budget import Budget

DRAIN_POLL_S = 0.02
RELOAD_RETRY_S = 0.05


class App:
    """One proxy. `load` reads the configuration again for a reload; `volume` is where its file lies."""

    def __init__(
        self,
        config: Config,
        budget: Budget | None = None,
        load: Callable[[], Config] | None = None,
        volume: ConfigVolume | None = None,
    ) -> None:
        self._config = config
        self._volume = volume or ConfigVolume(None)
        self._budget = budget or budget_of(config)
        self._clock = Clock()
        self._log = structlog.get_logger()
        token = TokenFetch(config.upstream.sasl)
        services = self._services = PolicyServices(has_credentials=config.upstream.has_credentials)
        self._telemetry = Telemetry(
            config, self._clock, services.call_at, self._effective_quota, token
        )
        observer = self._telemetry.broadcast
        self._engine = make_engine(config, self._budget, services, self._telemetry, self._clock)
        services.attach(self._engine)
        self._event_loop = EventLoop(self._engine, self._clock)
        self._authentication = ClientAuthentication(
            config.listen.sasl, self._engine, self._event_loop
        )
        self._ports: list[tuple[int | None, int]] = [
            (None, config.listen.port),
            *config.listen.node_ports().items(),
        ]
        self._tls = Tls(
            config.listen,
            config.upstream,
            self._event_loop,
            self._engine.unauthenticated,
            self._clock,
        )
        self._custody = custody_of(config.upstream.sasl, self._engine, self._event_loop)
        self._dialer = Dialer(
            self._engine.topology,
            config.upstream.addresses(),
            config.upstream.socket_connection_setup_timeout_ms / 1000,
            self._tls.connector,
            self._custody,
        )
        self._dials = BrokerDials(
            self._engine, self._event_loop, self._dialer, observer, self._clock
        )
        others = len(self._ports) + config.admin.max_connections()
        self._acceptor = Acceptor(
            self._engine,
            self._event_loop,
            observer,
            self._clock,
            connection_limit(config.limits.max_connections, others),
            self._tls.listener,
            () if config.listen.proxy_protocol is None else config.listen.proxy_protocol.networks,
        )
        self._stop = trio.Event()
        self._hangup = (
            trio.Event()
        )  # set by SIGHUP, and when the configuration's volume has changed
        self._reloader = Reloader(
            config,
            lambda: _within_budget(load or (lambda: config)),
            self._engine,
            services,
            observer,
            dynamic_settings(self._engine, self._acceptor, others, self._telemetry.tracer),
            self._clock,
            (self._authentication.load_changed, self._tls.load_changed),
        )
        self._admin_socket: AdminSocket | None = None
        self._service = self._admin_service()
        self._telemetry.attach(self._engine, self._service)

    def _effective_quota(self, user: str, client_id: str) -> EffectiveQuota | None:
        return self._engine.chain.effective_quota(user, client_id)

    # -- life ------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Serve until a signal ends it; return the exit code. Raises OSError if a port or a file cannot be used."""
        handled = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        # Before ports are bound: an open port is the sign that signals are handled.
        with trio.open_signal_receiver(*handled) as signals:
            if hangup.was_noted():  # it may have come after the settings were read
                self._hangup.set()
            listeners = Listeners(self._config.listen.address, self._ports)
            self._dialer.is_own = listeners.is_peer_of
            try:
                self._telemetry.start()
                async with trio.open_nursery() as nursery:
                    calls = self._services.blocking_calls
                    await nursery.start(calls.run, partial(nudge, self._event_loop))
                    nursery.start_soon(drive, self._event_loop, self._engine, self._clock)
                    nursery.start_soon(self._telemetry.last_counts.run)
                    nursery.start_soon(self._authentication.run)
                    nursery.start_soon(self._tls.watch)
                    if self._custody is not None:
                        await nursery.start(self._custody.serve)
                    await nursery.start(self._dials.serve)
                    if (
                        self._engine.chain.entries
                    ):  # so that the first refusal does not wait for the codec
                        nursery.start_soon(trio.to_thread.run_sync, codec.prepare)
                    await self._open_admin(nursery)
                    draining = trio.CancelScope()
                    nursery.start_soon(self._handle_signals, signals, draining)
                    nursery.start_soon(self._reload_on_hangup)
                    nursery.start_soon(
                        self._volume.watch, self._start_reload, self._files_of_policies
                    )
                    return_freed_memory()  # of the imports
                    self._log_ready()
                    await self._acceptor.serve(listeners, self._stop)
                    listeners.close()
                    with draining:
                        await self._drain()
                    nursery.cancel_scope.cancel()
            finally:
                listeners.close()
                self._event_loop.close_all(CloseReason.DRAIN_TIMEOUT)
                self._event_loop.close()
                self._engine.chain.close()
                self._telemetry.close()
                if self._admin_socket is not None:
                    self._admin_socket.close()
        self._log.info("stopped")
        return 0

    async def _handle_signals(
        self, signals: AsyncIterator[int], draining: trio.CancelScope
    ) -> None:
        """Handle signals: SIGHUP reloads and reopens files; the first other signal drains, the second ends at once."""
        async for number in signals:
            if number == signal.SIGHUP:
                self._telemetry.reopen()
                self._hangup.set()
            elif self._stop.is_set():
                draining.cancel()
            else:
                self._stop.set()

    def _start_reload(self) -> None:
        self._hangup.set()

    def _files_of_policies(self) -> Iterable[str]:
        return digests(self._reloader.config.policies)

    async def _reload_on_hangup(self) -> None:
        """Reload after each SIGHUP or swap; one that comes during a reload causes another."""
        while True:
            await self._hangup.wait()
            self._hangup = trio.Event()
            try:
                await self._reloader.reload()
                nudge(self._event_loop)
            except ReloadRunningError:  # one that the admin server started
                self._hangup.set()
                await trio.sleep(RELOAD_RETRY_S)

    async def _open_admin(self, nursery: trio.Nursery) -> None:
        """Serve the configured addresses now, and the default socket from its first connection on."""
        admin, monitoring = self._config.admin, self._telemetry.monitoring
        if admin.is_auto:
            self._open_default_socket()
        bound = None if self._admin_socket is None else self._admin_socket.listening
        if admin.is_served and monitoring is not None and self._service is not None:
            from proxy.admin.server import serve  # noqa: PLC0415 - a web server: imported if configured

            await nursery.start(serve, admin, self._service, monitoring.loop_lag, bound)
        elif bound is not None:
            nursery.start_soon(self._serve_on_first_connection, bound)

    def _open_default_socket(self) -> None:
        try:
            self._admin_socket = default_socket.listen(self._config.listen.port, os.environ)
        except OSError as error:
            hint = "set admin.socket to a path, or to none"
            self._log.info(
                "admin_socket_unavailable", reason=str(error.strerror or error), hint=hint
            )

    async def _serve_on_first_connection(self, bound: socket.socket) -> None:
        """Load the web server in a thread at the first connection; until then it costs no time and no memory."""
        first = await default_socket.first_caller(bound)
        try:
            serve = await trio.to_thread.run_sync(_load_admin)
            monitoring = self._telemetry.monitor()
            if self._service is None:
                self._service = self._admin_service()
                self._telemetry.attach_monitoring(self._engine, self._service)
            self._engine.keeps_traces = True
            self._engine.reconsider()
        except Exception:  # noqa: BLE001 - a fault of the admin server must not end the proxy
            self._log.exception("admin_error", message="the admin server cannot be loaded")
            first.close()
            bound.close()
            return
        if self._service is not None:
            await serve(self._config.admin, self._service, monitoring.loop_lag, bound, first)

    def _log_ready(self) -> None:
        listen, budget = self._config.listen, self._budget
        default = self._admin_socket
        socket_path = self._config.admin.socket_path if default is None else default.path
        self._log.info(
            "memory_budget",
            requests_bytes=budget.request_bytes,
            replies_bytes=budget.response_bytes,
            max_bytes=budget.max_bytes,
            limit_bytes=budget.demand.limit_bytes,
        )
        self._log.info(
            "ready",
            listen=host_port(listen.address, listen.port),
            nodes=listen.nodes,
            upstream=",".join(self._config.upstream.bootstrap_servers),
            admin_socket=socket_path or "none",
        )

    async def _drain(self) -> None:
        """Answer requests in flight and disconnect every client, until the deadline."""
        timeout_ms = self._reloader.config.drain.timeout_ms
        self._log.info("draining", sessions=len(self._engine.sessions), timeout_ms=timeout_ms)
        with trio.move_on_after(timeout_ms / 1000) as deadline:
            self._engine.drain()
            nudge(self._event_loop)
            while self._event_loop.open_sockets:
                # The driver may sleep without knowing the timers that were set here.
                self._event_loop.step(0)
                await trio.sleep(DRAIN_POLL_S)
        if deadline.cancelled_caught:  # the process may have stood still until now
            self._event_loop.read_out()

    # -- admin server -----------------------------------------------------------------------------

    def _admin_service(self) -> AdminService | None:
        monitoring = self._telemetry.monitoring
        if monitoring is None:
            return None
        from proxy.admin.service import AdminService  # noqa: PLC0415 - only with an admin server

        return AdminService(
            self._engine,
            self._event_loop,
            self._clock,
            self._reloader,
            self._ports,
            log_observer=self._telemetry.log,
            monitoring=monitoring,
            traces=self._telemetry.tracer,
            usage_log=self._telemetry.usage_log,
            audit=self._telemetry.audit,
            drain=self._stop.set,
            is_draining=self._stop.is_set,
            is_full=lambda: self._acceptor.is_full,
            certificates_ms=lambda: self._tls.expires_ms,
        )


def run(
    config: Config,
    load: Callable[[], Config] | None = None,
    volume: ConfigVolume | None = None,
) -> int:
    """Run the proxy until a signal ends it; return the exit code: 0, or 1 if it could not start.

    Raises SettingsError if it may need more memory than its container has.
    """
    budget = budget_of(_within_budget(lambda: config))
    log.configure(config.log.level, config.log.format)
    uncaught.install()
    map_large_pieces()
    # A connection has few objects, which live long: collecting them often costs latency.
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 50, 100)
    sys.setswitchinterval(0.0005)
    try:
        return trio.run(App(config, budget, load, volume).run)
    except (OSError, TracesError, FileError) as error:
        reason = str(
            error
        )  # for example a port that is taken; later errors are handled where they occur
    except ExceptionGroup as group:  # the same from a server in the nursery
        refused, others = group.split(OSError)
        if refused is None or others is not None:
            raise
        reason = str(_leaf(refused))
    structlog.get_logger().error("start_failed", reason=reason)
    return 1


def _load_admin() -> Callable[..., Awaitable[None]]:
    """Import the admin server and the telemetry that it shows; return `serve`."""
    from proxy.admin import service  # noqa: F401, PLC0415 - only with an admin server
    from proxy.admin.server import serve  # noqa: PLC0415 - as above
    from proxy.telemetry import monitoring  # noqa: F401, PLC0415 - as above

    gc.freeze()  # as at the start
    return serve


def _leaf(group: ExceptionGroup[Exception]) -> Exception:
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _within_budget(load: Callable[[], Config]) -> Config:
    """Return what `load` returns. Raises SettingsError if it may need more memory than the container has."""
    config = load()
    if problems := tuple(budget_of(config).problems()):
        raise SettingsError(problems)
    return config
