"""Clients that come through a load balancer: the PROXY header is read before anything else, TLS included.

Rules:
- It is read from the addresses of `listen.proxy_protocol.from` only, and there it is required: an address that could
  leave it out could speak as its load balancer. From any other address it is no part of Kafka's protocol.
- A client has HEADER_S for its header, takes one of the places of clients that are not authenticated meanwhile, and
  may lose it as they do.
- A header that is malformed, late or missing costs its own connection (`proxy_header`). One that closes before its
  first byte, as the health check of a load balancer does, is no client.
- From then on the address of the header is the client's: for limits, quotas, logs and the audit log.
"""

from __future__ import annotations

import socket
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING

import trio

from proxy.core.errors import CloseReason, ProxyHeaderError
from proxy.core.proxy_protocol import ProxyHeader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.core.engine import Engine

    Address = tuple[str, int]
    Admit = Callable[[socket.SocketType, int | None, Address], None]

HEADER_S = 5.0
"""How long a client may take for its header. A lost packet costs one to three seconds."""


class ProxiedClients:
    """The clients that come from `networks` (CIDR). `places` are those of clients in handshakes, and since when."""

    def __init__(
        self,
        networks: Sequence[str],
        engine: Engine,
        places: dict[trio.CancelScope, int],
        now_ms: Callable[[], int],
    ) -> None:
        self._networks = [ip_network(each) for each in networks]
        self._engine = engine
        self._places = places
        self._now_ms = now_ms

    def __bool__(self) -> bool:
        """Return whether there are any such clients."""
        return bool(self._networks)

    def includes(self, host: str) -> bool:
        """Return whether this address must send a header."""
        address = ip_address(host.partition("%")[0])
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)

    def accept(
        self,
        serving: trio.Nursery,
        admit: Admit,
        accepted: socket.SocketType,
        node_id: int | None,
        peer: Address,
    ) -> None:
        """Let `admit` have a client by its address: at once, or when its header has come, in a task of its own."""
        if self.includes(peer[0]):
            accepted.setblocking(False)
            place = trio.CancelScope()
            self._places[place] = self._now_ms()
            serving.start_soon(self._serve, accepted, node_id, peer, admit, place)
        else:
            admit(accepted, node_id, peer)

    async def _serve(
        self,
        accepted: socket.SocketType,
        node_id: int | None,
        peer: Address,
        admit: Admit,
        place: trio.CancelScope,
    ) -> None:
        header, why, is_read = ProxyHeader(), "", False
        try:
            with place:
                with trio.move_on_after(HEADER_S) as patience:
                    is_read = await _read(accepted, header)
                if patience.cancelled_caught:
                    why = f"no PROXY header within {HEADER_S:g} s"
                elif not is_read and header.begun:
                    why = "it closed within its PROXY header"
        except ProxyHeaderError as error:
            why = str(error)
        except OSError:
            pass  # it has disconnected
        finally:
            self._places.pop(place, None)
            if not is_read:
                accepted.close()
        if place.cancelled_caught:
            why = "no PROXY header yet, and its place was needed"
        if is_read:
            admit(accepted, node_id, header.source or peer)
        elif why:
            self._engine.refuse(*peer, node_id, CloseReason.PROXY_HEADER, why)


async def _read(accepted: socket.SocketType, header: ProxyHeader) -> bool:
    """Take the header, and not one byte more, from the socket; return False if the client closes before its end."""
    while not header.done:
        await trio.lowlevel.wait_readable(accepted)
        try:
            seen = accepted.recv(header.wanted_bytes, socket.MSG_PEEK)
        except BlockingIOError:
            continue
        if not seen:
            return False
        accepted.recv(header.feed(seen))
    return True
