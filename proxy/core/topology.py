"""Which broker is reached through which of our ports.

Rules:
- One port per node id of the declared range, bound before the proxy is ready, the same after every
  restart: clients keep cached addresses.
- No real broker address ever reaches a client. A node outside the range is advertised at the bootstrap
  port, counted and reported; never leaked.
- A broker that moved is followed with the next response that names it.
- Only nodes of the declared range are learnt: no other is ever dialled, and a broker may name any number
  of them. Of the others UNMAPPED_MAX are remembered and reported.
- An address that cannot be dialled is a fault of the broker that names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.errors import BrokerProtocolError
from proxy.core.node_health import Nodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.core.observer import Observer

NO_NODE = -1
"""Kafka's id for "nobody": a coordinator that is not known yet."""
UNMAPPED_MAX = 1000
"""Node ids outside the declared range that are remembered, and reported once each."""
PORT_MAX = 65535


class Topology:
    """`ports` maps each declared node id to our port; `host` is what clients are told to dial."""

    def __init__(
        self, host: str, bootstrap_port: int, ports: Mapping[int, int], observer: Observer
    ) -> None:
        self._host = host.encode()
        self._bootstrap = (self._host, bootstrap_port)
        self._advertised = {node: (self._host, port) for node, port in ports.items()}
        self._observer = observer
        self.nodes = Nodes()
        """How the brokers fare that somebody is connected to."""
        self._addresses: dict[int, tuple[bytes, int]] = {}
        self._unmapped: set[int] = set()
        self.unmapped_total = 0

    def advertise(self, node_id: int, host: bytes, port: int) -> tuple[bytes, int]:
        """Learn where `node_id` really is and say what the client is told instead.

        Raises `BrokerProtocolError` for an address that cannot be dialled.
        """
        if self._addresses.get(node_id) != (host, port):
            self._learn(node_id, host, port)
        return self._advertised.get(node_id) or self._unmapped_node(node_id)

    def conceal(self, node_id: int, host: bytes, port: int) -> tuple[bytes, int]:
        """As `advertise`, for addresses that are not a broker's client listener: nothing is learnt."""
        _ensure_address(node_id, host, port)
        return self._advertised.get(node_id) or self._bootstrap

    def learn(self, brokers: Mapping[int, tuple[bytes, int]]) -> None:
        """Take over what a bootstrap broker answered."""
        for node_id, (host, port) in brokers.items():
            if self._addresses.get(node_id) != (host, port):
                self._learn(node_id, host, port)

    def address_of(self, node_id: int) -> tuple[str, int] | None:
        """Where to dial for this node; None when no response has named it yet."""
        found = self._addresses.get(node_id)
        return None if found is None else (found[0].decode(errors="replace"), found[1])

    @property
    def knows_any(self) -> bool:
        """Whether a broker has named any node yet: then plain Kafka without SASL, or behind it, has answered here."""
        return bool(self._addresses or self._unmapped)

    @property
    def unmapped_nodes(self) -> frozenset[int]:
        """The node ids seen so far that have no port here, UNMAPPED_MAX of them at most."""
        return frozenset(self._unmapped)

    def _learn(self, node_id: int, host: bytes, port: int) -> None:
        if node_id == NO_NODE or not host:
            return
        _ensure_address(node_id, host, port)
        if node_id not in self._advertised:
            return
        self._addresses[node_id] = (host, port)
        self._observer.on_node_learned(node_id, host.decode(errors="replace"), port)

    def _unmapped_node(self, node_id: int) -> tuple[bytes, int]:
        self.unmapped_total += 1
        if node_id not in self._unmapped and len(self._unmapped) < UNMAPPED_MAX:
            self._unmapped.add(node_id)
            self._observer.on_unmapped_node(node_id)
        return self._bootstrap


def _ensure_address(node_id: int, host: bytes, port: int) -> None:
    if b"\0" in host or not 0 < port <= PORT_MAX:
        raise BrokerProtocolError(
            f"node {node_id} is said to be at {host!r}, port {port} (a host without a NUL byte and a port "
            f"from 1 to {PORT_MAX} may be)"
        )
