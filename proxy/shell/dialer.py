"""Connections to brokers.

Rules:
- If the address of a node is unknown, a bootstrap broker is asked for it first: one question at a time, and none
  within half a second of the last, answered or not.
- If bootstrap brokers do not answer (they require authentication, which only the client can give), the connection
  goes to a bootstrap broker instead. It answers requests for partitions that it does not lead with errors that make
  the client refresh its metadata, and that metadata has the addresses.
- A lack of file descriptors has a close reason of its own, because it is not the broker's fault.
- A connection that leads to a port of Sluice itself is closed: a broker may name that address, and each client would
  cost another connection, without end.
- If a broker cannot be reached, the client's connection is closed. Sluice does not answer in its place.
- With TLS each address has its own session tickets, and the name that is verified is the host that was dialled.
- With credentials of its own (`custody`) Sluice authenticates each connection, its questions' too, and then a refusal
  is not taken for a broker that has moved.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, NamedTuple

import trio

from proxy.core.errors import CloseReason, SessionFault
from proxy.core.metadata_lookup import MetadataLookup
from proxy.host_port import host_port
from proxy.shell.direct_io import receive_some, send_all
from proxy.shell.transport import HandshakeError, PlainTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.core.topology import Topology
    from proxy.shell.custody import Custody
    from proxy.shell.tls.connector import TlsConnector
    from proxy.shell.transport import Transport

    IsOwn = Callable[[socket.socket], bool]

_OUT_OF_DESCRIPTORS = {errno.EMFILE, errno.ENFILE}
ASK_AGAIN_S = 0.5
"""The shortest time between two questions."""


class DialError(Exception):
    """No connection to a broker; `reason` is the CloseReason, `detail` names the address and the cause."""

    def __init__(self, reason: CloseReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Upstream(NamedTuple):
    """A connection to a broker. `lifetime_ms`: how long Sluice's own authentication holds; 0: as long as it.

    `custody` has made that authentication, and renews it.
    """

    transport: Transport
    address: str
    lifetime_ms: int = 0
    custody: Custody | None = None

    def close(self) -> None:
        """Close the connection."""
        self.transport.close()


class Dialer:
    """Connects to brokers by node id, or to any bootstrap broker. `timeout_s` is that of one attempt: for TCP, for
    TLS and for the authentication.
    """

    def __init__(
        self,
        topology: Topology,
        bootstrap: Sequence[tuple[str, int]],
        timeout_s: float,
        tls: TlsConnector | None = None,
        custody: Custody | None = None,
    ) -> None:
        self._topology = topology
        self._bootstrap = list(bootstrap)
        self._timeout_s = timeout_s
        self._tls = tls
        self._custody = custody
        self.is_own: IsOwn = _never  # whether a connection leads to a port of ours
        self._asking = trio.Lock()
        self._asked_at = float("-inf")
        self._answered = False  # whether the last question was answered

    async def reach(self, node_id: int | None) -> Upstream:
        """Return a connection to this broker (None: to any bootstrap broker). Raises DialError."""
        if node_id is None:
            return await self._reach_any()
        address = self._topology.address_of(node_id)
        if address is not None:
            try:
                return await self._dial(*address)
            except DialError as error:
                if error.reason is CloseReason.UPSTREAM_AUTHENTICATION_FAILED:
                    raise
                # It may have moved. Ask where it is now, and only try again if it is elsewhere.
                await self._ask(node_id, than=address)
                moved = self._topology.address_of(node_id)
                if moved is None or moved == address:
                    raise
                return await self._dial(*moved)
        answered = await self._ask(node_id, than=None)
        address = self._topology.address_of(node_id)
        if address is not None:
            return await self._dial(*address)
        if answered:
            raise DialError(CloseReason.UNKNOWN_NODE, f"no broker has the id {node_id}")
        return await self._reach_any()

    async def _reach_any(self) -> Upstream:
        """Try the bootstrap brokers in turn; those that fail move to the end of the list."""
        error: DialError | None = None
        for host, port in tuple(self._bootstrap):
            try:
                return await self._dial(host, port)
            except DialError as failed:
                error = failed
                if (host, port) in self._bootstrap:
                    self._bootstrap.remove((host, port))
                self._bootstrap.append((host, port))
        raise error or DialError(CloseReason.UPSTREAM_REFUSED, "no bootstrap broker is configured")

    async def _ask(self, node_id: int, than: tuple[str, int] | None) -> bool:
        """Ask a bootstrap broker for the addresses of all brokers; return whether one answered."""
        async with self._asking:
            known = self._topology.address_of(node_id)
            if known is not None and known != than:
                return True  # another task learnt it meanwhile
            if trio.current_time() - self._asked_at >= ASK_AGAIN_S:
                self._answered = await self._ask_each()
                self._asked_at = trio.current_time()
            return self._answered

    async def _ask_each(self) -> bool:
        for _ in self._bootstrap:
            try:
                await self._ask_one()
            except (DialError, SessionFault, OSError, trio.TooSlowError):
                continue
            return True
        return False

    async def _ask_one(self) -> None:
        lookup = MetadataLookup(self._topology)
        host, port = self._bootstrap[0]
        self._bootstrap.append(self._bootstrap.pop(0))
        broker = await self._dial(host, port)
        try:
            with trio.fail_after(self._timeout_s):
                await send_all(broker.transport, lookup.question)
                while not lookup.done:
                    data = await receive_some(broker.transport)
                    if not data:
                        raise DialError(
                            CloseReason.UPSTREAM_REFUSED,
                            f"{host_port(host, port)} closed the connection without an answer",
                        )
                    lookup.feed(data)
        finally:
            broker.close()

    async def _dial(self, host: str, port: int) -> Upstream:
        """Return an authenticated connection to one address. Raises DialError."""
        transport = await dial(host, port, self._timeout_s, self._tls, self.is_own)
        address = host_port(host, port)
        if self._custody is None:
            return Upstream(transport, address)
        failed = CloseReason.UPSTREAM_AUTHENTICATION_FAILED
        lifetime_ms = None
        try:
            with trio.fail_after(self._timeout_s):
                lifetime_ms = await self._custody.authenticate(transport, address)
        except SessionFault as fault:
            raise DialError(fault.reason, f"{address}: {fault}") from None
        except OSError as error:
            why = error.strerror or str(error)
            raise DialError(failed, f"{address}: {why}") from None
        except trio.TooSlowError:
            why = f"no authentication within {self._timeout_s:g} s"
            raise DialError(CloseReason.UPSTREAM_DIAL_TIMEOUT, f"{address}: {why}") from None
        finally:
            if lifetime_ms is None:
                transport.close()
        return Upstream(transport, address, lifetime_ms, self._custody)


def _never(_: socket.socket) -> bool:
    return False


async def dial(
    host: str,
    port: int,
    timeout_s: float,
    tls: TlsConnector | None = None,
    is_own: IsOwn = _never,
) -> Transport:
    """Return a connection to one address. Raises DialError, after `timeout_s` for each of TCP and TLS at the latest."""
    try:
        with trio.fail_after(timeout_s):
            stream = await _connect(host, port)
    except trio.TooSlowError:
        detail = f"{host_port(host, port)} did not answer within {timeout_s:g} s"
        raise DialError(CloseReason.UPSTREAM_DIAL_TIMEOUT, detail) from None
    # The event loop's from here on: a plain socket with the same descriptor.
    connected = socket.socket(fileno=stream.socket.detach())
    if is_own(connected):
        connected.close()
        raise DialError(
            CloseReason.UPSTREAM_REFUSED, f"{host_port(host, port)} is a port of Sluice itself"
        )
    if tls is None:
        return PlainTransport(connected)
    try:
        return await tls.secure(connected, host, port)
    except HandshakeError as error:
        raise DialError(CloseReason.BROKER_TLS, f"{host_port(host, port)}: {error}") from error


async def _connect(host: str, port: int) -> trio.SocketStream:
    """Return a connection. Raises DialError with the system's message."""
    try:
        return await trio.open_tcp_stream(host, port)
    except (OSError, UnicodeError) as error:  # a host that is no name at all is a UnicodeError
        cause = _cause(error)
        why = (cause.strerror if isinstance(cause, OSError) else None) or str(error)
        is_ours = isinstance(cause, OSError) and cause.errno in _OUT_OF_DESCRIPTORS
        reason = CloseReason.FILE_DESCRIPTORS_EXHAUSTED if is_ours else CloseReason.UPSTREAM_REFUSED
        raise DialError(reason, f"{host_port(host, port)}: {why}") from error


def _cause(error: OSError | UnicodeError) -> BaseException:
    """Return the system's error ("Connection refused"), which Trio wraps in the list of its attempts."""
    cause = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause if isinstance(cause, OSError) and cause.strerror else error
