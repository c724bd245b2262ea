"""The listening ports: one for bootstrap and one per declared node, all bound before the first listens.

Rules:
- Ports are the same after every restart, because clients cache addresses.
- When file descriptors run out, accepting pauses. Connected clients are not affected.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import trio

from proxy.host_port import host_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Accepted = Callable[[socket.socket, int | None], None]

BACKLOG = 4096
PAUSE_S = 0.1
_ANY = ("0.0.0.0", "::")  # noqa: S104 - addresses to be recognised
_OUT_OF_DESCRIPTORS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Listeners:
    """Binds the ports; each is (node id or None for bootstrap, port). Raises OSError if one is taken."""

    def __init__(self, address: str, ports: Iterable[tuple[int | None, int]]) -> None:
        self._bound: list[tuple[int | None, trio.socket.SocketType]] = []
        self._places: list[tuple[str, int]] = []
        try:
            for node_id, port in ports:
                self._bound.append((node_id, _bind(address, port)))
            for _, listening in reversed(self._bound):  # the bootstrap port last
                _listen(listening)
                self._places.append(listening.getsockname()[:2])
        except OSError:
            self.close()
            raise

    async def serve(
        self,
        on_accepted: Accepted,
        may_accept: Callable[[], bool],
        on_exhausted: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Accept on every port and hand each connection to `on_accepted(socket, node_id)`.

        While `may_accept` returns False new clients wait in the kernel's backlog. It is called before each accept, so
        `on_accepted` must have counted the client before. `on_exhausted` gets the system's message when a client could
        not be accepted, once per pause.
        """
        async with trio.open_nursery() as nursery:
            for node_id, listening in self._bound:
                nursery.start_soon(
                    _accept, listening, node_id, on_accepted, may_accept, on_exhausted
                )

    def is_peer_of(self, connected: socket.socket) -> bool:
        """Return whether this connection leads to one of these ports."""
        try:
            here, (host, port) = connected.getsockname()[0], connected.getpeername()[:2]
        except OSError:
            return False  # it has disconnected already
        is_here = host == here or host.startswith("127.")
        hosts = {host, *(_ANY if is_here else ())}
        return any(place[0] in hosts and place[1] == port for place in self._places)

    def close(self) -> None:
        """Stop listening. Accepted connections stay open."""
        for _, listening in self._bound:
            listening.close()


def _bind(address: str, port: int) -> trio.socket.SocketType:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
    except OSError as error:
        listening.close()
        raise _refused(address, port, error) from error
    return trio.socket.from_stdlib_socket(listening)


def _listen(listening: trio.socket.SocketType) -> None:
    address, port = listening.getsockname()[:2]
    try:
        listening.listen(BACKLOG)
    except OSError as error:  # another process has bound the port as well, and listens first
        raise _refused(address, port, error) from error


def _refused(address: str, port: int, error: OSError) -> OSError:
    return OSError(error.errno, f"cannot listen on {host_port(address, port)}: {error.strerror}")


async def _accept(
    listening: trio.socket.SocketType,
    node_id: int | None,
    on_accepted: Accepted,
    may_accept: Callable[[], bool],
    on_exhausted: Callable[[str], None],
) -> None:
    while True:
        await trio.lowlevel.wait_readable(listening)
        if not may_accept():
            await trio.sleep(PAUSE_S)
            continue
        try:
            accepted, _ = await listening.accept()
        except OSError as error:
            if error.errno not in _OUT_OF_DESCRIPTORS:
                if error.errno in {errno.EBADF, errno.EINVAL}:
                    return  # closed: the proxy drains
                continue  # the client had disconnected
            on_exhausted(error.strerror or str(error))
            await trio.sleep(PAUSE_S)
            continue
        on_accepted(socket.socket(fileno=accepted.detach()), node_id)
