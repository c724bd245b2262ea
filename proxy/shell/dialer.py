"""Connections to brokers.

Rules:
- A node whose address is not known yet is asked of a bootstrap broker first; one question at a time,
  and none within half a second of the last, answered or not.
- If bootstrap brokers cannot be asked (they want authentication, which only the client has), the
  connection goes to a bootstrap broker instead: it answers what it does not lead with the errors that
  make every client refresh its metadata, and that answer tells us the addresses.
- A lack of descriptors is ours, not a broker's refusal, and is told apart.
- A broker that cannot be reached closes the client's connection. Nothing is answered in its name.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import trio

from proxy.core.errors import CloseReason, SessionFault
from proxy.core.metadata_lookup import MetadataLookup
from proxy.shell.transport import PlainTransport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.core.topology import Topology
    from proxy.shell.transport import Transport

_OUT_OF_DESCRIPTORS = {errno.EMFILE, errno.ENFILE}
ASK_AGAIN_S = 0.5
"""After an answer that did not name a node, the same question waits this long."""


class DialError(Exception):
    """No broker; `reason` says why."""

    def __init__(self, reason: CloseReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Dialer:
    """Reaches brokers by node id, or any bootstrap broker."""

    def __init__(
        self, topology: Topology, bootstrap: Sequence[tuple[str, int]], timeout_s: float
    ) -> None:
        self._topology = topology
        self._bootstrap = list(bootstrap)
        self._timeout_s = timeout_s
        self._asking = trio.Lock()
        self._asked_at = float("-inf")
        self._answered = False  # the last time somebody was asked

    async def reach(self, node_id: int | None) -> Transport:
        """A connection to this broker (None: to any bootstrap broker), or DialError."""
        if node_id is None:
            return await self._reach_any()
        address = self._topology.address_of(node_id)
        if address is not None:
            try:
                return await dial(*address, self._timeout_s)
            except DialError:
                # It may have moved. Ask where it is now, and only try again if it is elsewhere.
                await self._ask(node_id, than=address)
                moved = self._topology.address_of(node_id)
                if moved is None or moved == address:
                    raise
                return await dial(*moved, self._timeout_s)
        answered = await self._ask(node_id, than=None)
        address = self._topology.address_of(node_id)
        if address is not None:
            return await dial(*address, self._timeout_s)
        if answered:
            raise DialError(CloseReason.UNKNOWN_NODE, f"no broker has the id {node_id}")
        return await self._reach_any()

    async def _reach_any(self) -> Transport:
        """Bootstrap brokers in turn; who answered goes on being first, who did not goes last."""
        error: DialError | None = None
        for host, port in tuple(self._bootstrap):
            try:
                return await dial(host, port, self._timeout_s)
            except DialError as failed:
                error = failed
                if (host, port) in self._bootstrap:
                    self._bootstrap.remove((host, port))
                self._bootstrap.append((host, port))
        raise error or DialError(CloseReason.UPSTREAM_REFUSED, "no bootstrap broker is configured")

    async def _ask(self, node_id: int, than: tuple[str, int] | None) -> bool:
        """Ask a bootstrap broker where everybody is; whether one answered."""
        async with self._asking:
            known = self._topology.address_of(node_id)
            if known is not None and known != than:
                return True  # somebody learnt it while we waited
            if trio.current_time() - self._asked_at >= ASK_AGAIN_S:
                self._answered = await self._ask_each()
                self._asked_at = trio.current_time()
            return self._answered

    async def _ask_each(self) -> bool:
        for _ in self._bootstrap:
            try:
                await self._ask_one()
            except (DialError, SessionFault, trio.BrokenResourceError, trio.TooSlowError):
                continue
            return True
        return False

    async def _ask_one(self) -> None:
        lookup = MetadataLookup(self._topology)
        host, port = self._bootstrap[0]
        self._bootstrap.append(self._bootstrap.pop(0))
        with trio.fail_after(self._timeout_s):
            stream = await connect(host, port)
            async with stream:
                await stream.send_all(lookup.question)
                while not lookup.done:
                    data = await stream.receive_some()
                    if not data:
                        raise DialError(CloseReason.UPSTREAM_REFUSED, "closed instead of answering")
                    lookup.feed(data)


async def dial(host: str, port: int, timeout_s: float) -> Transport:
    """One connection, or DialError after at most `timeout_s`."""
    try:
        with trio.fail_after(timeout_s):
            stream = await connect(host, port)
    except trio.TooSlowError:
        detail = f"{host}:{port} did not answer within {timeout_s:g} s"
        raise DialError(CloseReason.UPSTREAM_DIAL_TIMEOUT, detail) from None
    # The event loop's from here on: a plain socket with the same descriptor.
    return PlainTransport(socket.socket(fileno=stream.socket.detach()))


async def connect(host: str, port: int) -> trio.SocketStream:
    """A connection, or DialError with the system's own word."""
    try:
        return await trio.open_tcp_stream(host, port)
    except (OSError, UnicodeError) as error:  # a host that is no name at all is a UnicodeError
        cause = _cause(error)
        why = (cause.strerror if isinstance(cause, OSError) else None) or str(error)
        is_ours = isinstance(cause, OSError) and cause.errno in _OUT_OF_DESCRIPTORS
        reason = CloseReason.FILE_DESCRIPTORS_EXHAUSTED if is_ours else CloseReason.UPSTREAM_REFUSED
        raise DialError(reason, f"{host}:{port}: {why}") from error


def _cause(error: OSError | UnicodeError) -> BaseException:
    """The system's own ("Connection refused"), which Trio hides behind the attempts it made."""
    cause = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause if isinstance(cause, OSError) and cause.strerror else error
