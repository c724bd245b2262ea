"""The admin server: hypercorn's protocol and starlette's routes on the proxy's own loop.

Rules:
- `listen` serves the open paths. `socket` serves everything to users that may open the file, `control` serves
  everything to clients with the token. Nothing else is bound.
- A listener serves MAX_ADMIN_CONNECTIONS at once; one more closes the oldest. So a flooded admin port takes only a few
  descriptors from the clients of the proxy, and probes are still answered.
- A fault is logged and ends its own connection only.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import h2.exceptions
import h11
import structlog
import trio
import wsproto.utilities
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.logging import Logger
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from proxy.admin.change_log import ChangeLog
from proxy.admin.dashboard import DashboardFiles
from proxy.admin.errors import NO_PATH, AdminError
from proxy.admin.health import Probes
from proxy.admin.json_http import error
from proxy.admin.live_state import LiveState
from proxy.admin.middleware import LOCAL, AdminMiddleware, host_name
from proxy.admin.routes import Routes
from proxy.admin.send_timeout import SendTimeoutStream
from proxy.admin.sockets import bind_tcp, bind_unix, inode_of, unlink
from proxy.admin.sse import EventStreams
from proxy.admin.token import Token
from proxy.config.telemetry import MAX_ADMIN_CONNECTIONS
from proxy.telemetry.escaping import printable

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from proxy.admin.service import AdminService
    from proxy.config.telemetry import AdminSettings
    from proxy.telemetry.loop_lag import LoopLag

IDLE_S = 15.0


_CALLERS = (
    h11.ProtocolError,
    h2.exceptions.H2Error,
    wsproto.utilities.ProtocolError,
    ConnectionError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
)
"""Exceptions that a client causes: bytes that break the protocol, a connection that ends at any time."""


class _Faults(Logger):
    """hypercorn's log as our events; only faults are logged."""

    async def exception(self, message: str, *args: object, **kwargs: object) -> None:
        log_fault(sys.exception(), message)


def log_fault(fault: BaseException | None, message: str = "") -> None:
    """Log a fault: a client's with its reason, a bug with its traceback."""
    found = fault
    while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    if isinstance(found, _CALLERS):
        reason = printable(f"{type(found).__name__}: {found}")
        structlog.get_logger().warning("admin_bad_request", reason=reason)
    else:
        structlog.get_logger().error("admin_error", message=message, exc_info=fault)


class Listener:
    """One socket and what it serves. `first`: a connection that was accepted already."""

    def __init__(
        self, bound: socket.socket, middleware: AdminMiddleware, first: socket.socket | None = None
    ) -> None:
        self._first = first
        self._listening = trio.SocketListener(trio.socket.from_stdlib_socket(bound))
        self._app = ASGIWrapper(middleware)  # type: ignore[arg-type] # the same calls with other types
        self._config = _config()
        self._context = WorkerContext(None)
        self._streams: dict[SendTimeoutStream, None] = {}  # the oldest first

    async def serve(self) -> None:
        """Accept until cancelled; then drop all connections."""
        async with trio.open_nursery() as nursery:
            if self._first is not None:
                first = trio.SocketStream(trio.socket.from_stdlib_socket(self._first))
                nursery.start_soon(self._one, first)
            try:
                await trio.serve_listeners(self._one, [self._listening], handler_nursery=nursery)
            finally:
                for stream in tuple(self._streams):
                    stream.drop()

    async def _one(self, accepted: trio.SocketStream) -> None:
        if len(self._streams) >= MAX_ADMIN_CONNECTIONS:
            oldest = next(iter(self._streams))
            del self._streams[oldest]
            oldest.drop()
        stream = SendTimeoutStream(accepted)
        self._streams[stream] = None
        try:
            state = ConnectionState({"peer": stream.peer()})
            served = TCPServer(self._app, self._config, self._context, state, stream)  # type: ignore[arg-type] # all it uses
            await served
        except Exception as fault:  # noqa: BLE001 - one caller's connection must not end the proxy
            log_fault(fault)
        finally:
            self._streams.pop(stream, None)
            stream.drop()


async def serve(
    settings: AdminSettings,
    service: AdminService,
    loop_lag: LoopLag,
    bound: socket.socket | None = None,
    first: socket.socket | None = None,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Bind all listeners, then serve until cancelled. Raises OSError if one cannot be bound.

    `bound` is a Unix socket that listens already, instead of one that the settings name; it is the caller's. `first`
    is the connection that was accepted there before.
    """
    with ExitStack() as opened:
        live = LiveState(service, loop_lag, settings.trace_url)
        probes = Probes(service)
        everything = [
            *probes.routes(),
            *Routes(service, live, EventStreams(live)).routes(),
            *DashboardFiles().routes(),
        ]
        listeners = []
        if settings.listen:
            open_to_all = opened.enter_context(bind_tcp(settings.listen, "admin.listen"))
            middleware = AdminMiddleware(app_of(probes.routes()), ChangeLog("listen"))
            listeners.append(Listener(open_to_all, middleware))
        path = settings.socket_path
        if path:
            bound = opened.enter_context(bind_unix(path, "admin.socket"))
            opened.callback(unlink, path, inode_of(path))
        if bound is not None:
            middleware = AdminMiddleware(
                app_of(everything),
                ChangeLog("socket"),
                hosts=LOCAL | _named(settings.allowed_hosts),
            )
            listeners.append(Listener(bound, middleware, first))
        if settings.control:
            controlled = opened.enter_context(bind_tcp(settings.control, "admin.control"))
            hosts = LOCAL | _named(
                (settings.control, host_name(settings.control), *settings.allowed_hosts)
            )
            middleware = AdminMiddleware(
                app_of(everything),
                ChangeLog("control"),
                token=Token(settings.token_file),
                hosts=hosts,
            )
            listeners.append(Listener(controlled, middleware))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(loop_lag.beat)
            for listener in listeners:
                nursery.start_soon(listener.serve)
            task_status.started()


def app_of(routes: Sequence[Route]) -> Starlette:
    """Return an application of the routes, with JSON errors."""
    app = Starlette(
        routes=routes,
        exception_handlers={AdminError: _refused, HTTPException: _failed, Exception: _broken},
    )
    app.router.redirect_slashes = False  # a redirect would go to any host that the client names
    return app


async def _refused(request: Request, refused: Exception) -> Response:  # noqa: ARG001 - starlette's call
    status = refused.status if isinstance(refused, AdminError) else 500
    return error(status, str(refused))


async def _failed(request: Request, failed: Exception) -> Response:  # noqa: ARG001 - starlette's call
    """Answer starlette's own refusals: no such path, or not with this method."""
    status, headers = 500, None
    if isinstance(failed, HTTPException):
        status, headers = failed.status_code, failed.headers
    response = error(status, {404: NO_PATH, 405: "method not allowed"}.get(status, ""))
    response.headers.update(headers or {})
    return response


async def _broken(request: Request, fault: Exception) -> Response:  # noqa: ARG001 - starlette's call
    """Answer after a bug, which hypercorn logs."""
    return error(500, "internal error: see the log")


def _named(hosts: Sequence[str]) -> frozenset[str]:
    return frozenset(each.lower() for each in hosts)


def _config() -> Config:
    config = Config()
    config.accesslog = config.errorlog = None
    config.logger_class = _Faults
    config.include_server_header = False
    config.keep_alive_timeout = IDLE_S
    return config
