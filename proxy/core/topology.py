"""Maps broker addresses to the ports of the proxy.

Rules:
- Each node id of the declared range has one port, or one host at the bootstrap port. It is bound before the proxy is
  ready and stays the same after a restart, because clients cache addresses.
- No real broker address ever reaches a client. A node outside the range is advertised at the bootstrap
  port, counted and reported.
- When a broker moves, the next response that names it updates its address; the `subscribers` are told.
- Only addresses of nodes in the declared range are stored and dialled, because a broker may name any number
  of nodes. Of the others, at most UNMAPPED_MAX node ids are remembered and reported.
- An address that cannot be dialled is a protocol error of the broker that names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.errors import BrokerProtocolError
from proxy.core.node_health import Nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.core.observer import Observer

NO_NODE = -1
"""Kafka's id for no node: the coordinator is not known yet."""
UNMAPPED_MAX = 1000
"""How many node ids outside the declared range are remembered; each is reported once."""
PORT_MAX = 65535


class Topology:
    """Rewrites addresses. `nodes` maps each declared node id to the host and port that its clients dial; those of the
    other nodes dial `host` and `bootstrap_port`.
    """

    def __init__(
        self,
        host: str,
        bootstrap_port: int,
        nodes: Mapping[int, tuple[str, int]],
        observer: Observer,
    ) -> None:
        self._bootstrap = (host.encode(), bootstrap_port)
        self._advertised = {node: (own.encode(), port) for node, (own, port) in nodes.items()}
        self._observer = observer
        self.nodes = Nodes()
        """The health of the brokers that have sessions."""
        self._addresses: dict[int, tuple[bytes, int]] = {}
        self._dialled: dict[
            int, tuple[str, int]
        ] = {}  # the same as text: one object for all sessions
        self.subscribers: list[Callable[[int, tuple[str, int] | None], None]] = []
        """Called with each node whose address has changed, and the one before; None: none was known."""
        self._unmapped: set[int] = set()
        self.cluster_id: bytes | None = None
        """As the brokers have named it last; None: none has yet."""
        self.revision = 0
        """How often an address was learnt: a list of brokers teaches nothing new as long as this does not change."""

    def advertise(self, node_id: int, host: bytes, port: int) -> tuple[bytes, int]:
        """Store the real address of `node_id`. Return the host and port that the client is told instead.

        Raises `BrokerProtocolError` for an address that cannot be dialled.
        """
        if self._addresses.get(node_id) != (host, port):
            self._learn(node_id, host, port)
        return self._advertised.get(node_id) or self._unmapped_node(node_id)

    def conceal(self, node_id: int, host: bytes, port: int) -> tuple[bytes, int]:
        """Return the same as `advertise`, but store nothing: the address is not a broker's client listener."""
        _ensure_address(node_id, host, port)
        return self._advertised.get(node_id) or self._bootstrap

    def learn(self, brokers: Mapping[int, tuple[bytes, int]]) -> None:
        """Store the addresses that a bootstrap broker returned.

        Raises `BrokerProtocolError` for an address that cannot be dialled.
        """
        for node_id, (host, port) in brokers.items():
            if self._addresses.get(node_id) != (host, port):
                self._learn(node_id, host, port)

    def has_port(self, node_id: int) -> bool:
        """Return whether this node has a port, or a host, of its own."""
        return node_id in self._advertised

    def address_of(self, node_id: int) -> tuple[str, int] | None:
        """Return the host and port to dial for this node; None when no response has named it yet."""
        return self._dialled.get(node_id)

    def advertised(self) -> list[tuple[int, str, int]]:
        """Return node id, host and port, as clients are told them, of each broker whose address is known."""
        return [
            (node_id, host.decode(), port)
            for node_id, (host, port) in self._advertised.items()
            if node_id in self._addresses
        ]

    @property
    def knows_any(self) -> bool:
        """Whether a broker has named any node yet, which proves that Kafka answers, without SASL or once it is done."""
        return bool(self._addresses or self._unmapped)

    @property
    def unmapped_nodes(self) -> frozenset[int]:
        """Return the node ids seen so far that have no port, at most UNMAPPED_MAX."""
        return frozenset(self._unmapped)

    def _learn(self, node_id: int, host: bytes, port: int) -> None:
        if node_id == NO_NODE or not host:
            return
        _ensure_address(node_id, host, port)
        if node_id not in self._advertised:
            return
        before = self._dialled.get(node_id)
        self._addresses[node_id] = (host, port)
        self.revision += 1
        text = self._dialled[node_id] = host.decode(errors="replace"), port
        self._observer.on_node_learned(node_id, *text)
        for on_moved in self.subscribers:
            on_moved(node_id, before)

    def _unmapped_node(self, node_id: int) -> tuple[bytes, int]:
        if node_id not in self._unmapped and len(self._unmapped) < UNMAPPED_MAX:
            self._unmapped.add(node_id)
            self._observer.on_unmapped_node(node_id)
        return self._bootstrap


def _ensure_address(node_id: int, host: bytes, port: int) -> None:
    if b"\0" in host or not 0 < port <= PORT_MAX:
        raise BrokerProtocolError(
            f"node {node_id} at {host!r}, port {port}: host contains a NUL byte or port is outside 1..{PORT_MAX}"
        )
