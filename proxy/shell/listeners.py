"""The listening ports: one for bootstrap and one per declared node, all bound before the first listens.

Rules:
- Ports are the same after every restart, because clients cache addresses.
- What an accepted socket inherits is set once, on the socket of its port.
- The event loop accepts clients, as it reads sockets: without a task for each. It accepts one for each event of a port,
  so one in each step, and in a storm one in each millisecond. Each client means some more events, and those of many
  would delay the events of all others.
- While no place is left for a client, and when file descriptors run out, a port has no events for PAUSE_MS. Clients
  wait in the kernel's backlog then. Connected clients are not affected.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Final

from proxy.host_port import host_port
from proxy.shell.masks import IN
from proxy.shell.transport import set_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from proxy.core.purgatory.timers import Timer
    from proxy.shell.endpoint import Endpoints

    Address = tuple[str, int]
    Accepted = Callable[[socket.SocketType, int | None, Address], None]

BACKLOG = 4096
_STREAM: Final = int(socket.SOCK_STREAM)
PAUSE_MS: Final = 100
STORM_MS: Final = 1
"""The pause of a port after each client in a storm."""
_ANY = ("0.0.0.0", "::")  # noqa: S104 - addresses to be recognised
_OUT_OF_DESCRIPTORS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Listeners:
    """Binds the ports; each is (node id or None for bootstrap, port). Raises OSError if one is taken."""

    def __init__(self, address: str, ports: Iterable[tuple[int | None, int]]) -> None:
        self._bound: list[tuple[int | None, socket.socket]] = []
        self._places: list[Address] = []
        self._accepting: list[_Listener] = []
        try:
            for node_id, port in ports:
                self._bound.append((node_id, _bind(address, port)))
            for _, listening in reversed(self._bound):  # the bootstrap port last
                _listen(listening)
                self._places.append(listening.getsockname()[:2])
            self._own_ports = {port for _, port in self._places}
        except OSError:
            self.close()
            raise

    def start(
        self,
        endpoints: Endpoints,
        on_accepted: Accepted,
        may_accept: Callable[[], bool],
        on_exhausted: Callable[[str], None] = lambda _: None,
        is_storm: Callable[[], bool] = lambda: False,
    ) -> None:
        """Have the event loop accept clients on every port, each for `on_accepted(socket, node_id, address)`.

        While `may_accept` returns False new clients wait in the kernel's backlog. It is called when a client waits,
        before each accept, so `on_accepted` must have counted the one before. `on_exhausted` gets the system's message
        when a client could not be accepted, once per pause. `is_storm` returns whether many accepted clients have still
        to be served. Raises OSError if a port cannot be watched.
        """
        for node_id, listening in self._bound:
            accepts = _Listener(
                endpoints, listening, node_id, on_accepted, may_accept, on_exhausted, is_storm
            )
            accepts.start()
            self._accepting.append(accepts)

    def stop(self) -> None:
        """Accept no more clients. The ports stay open."""
        for each in self._accepting:
            each.stop()
        self._accepting.clear()

    def is_peer_of(self, connected: socket.SocketType, port: int) -> bool:
        """Return whether this connection, which was made to `port`, leads to one of these ports."""
        if port not in self._own_ports:
            return False
        try:
            host = connected.getpeername()[0]
            here = connected.getsockname()[0]
        except OSError:
            return False  # it has disconnected already
        is_here = host == here or host.startswith("127.")
        hosts = {host, *(_ANY if is_here else ())}
        return any(place[0] in hosts and place[1] == port for place in self._places)

    def close(self) -> None:
        """Stop listening. Accepted connections stay open."""
        self.stop()
        for _, listening in self._bound:
            listening.close()


class _Listener:
    """One port of which the event loop accepts clients."""

    __slots__ = (
        "_endpoints",
        "_family",
        "_is_storm",
        "_may_accept",
        "_node_id",
        "_on_accepted",
        "_on_exhausted",
        "_pause",
        "_socket",
    )

    def __init__(
        self,
        endpoints: Endpoints,
        listening: socket.socket,
        node_id: int | None,
        on_accepted: Accepted,
        may_accept: Callable[[], bool],
        on_exhausted: Callable[[str], None],
        is_storm: Callable[[], bool],
    ) -> None:
        self._endpoints = endpoints
        self._socket = listening
        self._family = int(listening.family)
        self._node_id = node_id
        self._on_accepted = on_accepted
        self._may_accept = may_accept
        self._on_exhausted = on_exhausted
        self._is_storm = is_storm
        self._pause: Timer | None = None

    def start(self) -> None:
        """Watch the port. Raises OSError if the system has no watch left."""
        self._endpoints.watch(self._socket.fileno(), IN, self._accept)

    def stop(self) -> None:
        """Watch the port no longer."""
        self._endpoints.unwatch(self._socket.fileno())
        if self._pause is not None:
            self._pause.cancel()

    def _accept(self, now_ms: int) -> None:
        """Accept a client that has connected."""
        if not self._may_accept():
            self._rest(now_ms, PAUSE_MS)
            return
        try:
            # `accept` itself looks up the enums of the listener's family and type for each client.
            fd, address = self._socket._accept()  # type: ignore[attr-defined]  # noqa: SLF001
            accepted = socket.SocketType(self._family, _STREAM, 0, fd)
        except OSError as error:
            if error.errno in _OUT_OF_DESCRIPTORS:
                self._on_exhausted(error.strerror or str(error))
                self._rest(now_ms, PAUSE_MS)
            return  # else the client has disconnected
        self._on_accepted(accepted, self._node_id, address[:2])
        if self._is_storm():
            self._rest(now_ms, STORM_MS)

    def _rest(self, now_ms: int, pause_ms: int) -> None:
        """Ask for no events for a while: a level-triggered set would spin. The watch stays: a new one could fail."""
        self._endpoints.poller.modify(self._socket.fileno(), 0)
        self._pause = self._endpoints.engine.timers.arm(now_ms + pause_ms, self._resume)

    def _resume(self, _now_ms: int) -> None:
        self._pause = None
        self._endpoints.poller.modify(self._socket.fileno(), IN)


def _bind(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        set_options(listening)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
    except OSError as error:
        listening.close()
        raise _refused(address, port, error) from error
    return listening


def _listen(listening: socket.socket) -> None:
    address, port = listening.getsockname()[:2]
    try:
        listening.listen(BACKLOG)
    except OSError as error:  # another process has bound the port as well, and listens first
        raise _refused(address, port, error) from error


def _refused(address: str, port: int, error: OSError) -> OSError:
    return OSError(error.errno, f"cannot listen on {host_port(address, port)}: {error.strerror}")
