"""How long each broker has been silent, measured over all connections of this process to it.

Rules:
- A broker that sends a byte on any connection is alive. Recording this costs one store for each read of replies.
- An idle broker is not silent: silence counts from when a reply became due, or from the last byte if that came later.
- Once Sluice has answered a request for a silent broker, the broker is known to be silent. Later requests need not
  wait that long again, until the broker sends a byte or the connection of the unanswered request is closed.
"""

from __future__ import annotations

from typing import Final
from weakref import ref

NOTHING_OWED = -1
"""Instead of a time: the broker is not known to be silent."""
MANY: Final = 64
"""Brokers that have no session any more are looked for when there are so many."""


class NodeHealth:
    """The health of one broker. `owed` counts the replies still due for requests that Sluice answered itself."""

    __slots__ = ("__weakref__", "address", "heard_ms", "owed", "owed_since_ms")

    def __init__(self, address: str = "") -> None:
        self.address = address
        """HOST:PORT of a broker reached through the bootstrap port; else empty."""
        self.heard_ms = 0
        self.owed = 0
        self.owed_since_ms = NOTHING_OWED

    @property
    def is_silent(self) -> bool:
        """Whether Sluice answered a request for the broker, which has sent no byte since that reply became due."""
        return self.owed > 0 and self.owed_since_ms >= self.heard_ms

    def silent_since_ms(self, owed_since_ms: int) -> int:
        """Return since when the broker has been silent, in ms, for a reply that is due since `owed_since_ms`."""
        since_ms = max(self.heard_ms, owed_since_ms)
        if self.is_silent:
            return min(since_ms, self.owed_since_ms)
        return since_ms

    def on_answered_here(self, owed_since_ms: int = NOTHING_OWED) -> None:
        """Count a request that Sluice answered itself. `owed_since_ms` is given if it did because of silence."""
        if owed_since_ms != NOTHING_OWED:
            self.owed_since_ms = self.silent_since_ms(owed_since_ms)
        self.owed += 1

    def on_settled(self) -> None:
        """Count off such a request: its reply has arrived, or its connection has ended."""
        self.owed -= 1
        if not self.owed:
            self.owed_since_ms = NOTHING_OWED


class ByteCount:
    """How many bytes were read from all sockets of one side of a node. The event loop adds to it at each read."""

    __slots__ = ("read_bytes",)

    def __init__(self) -> None:
        self.read_bytes = 0


class Nodes:
    """The brokers with open sessions, by node id; those reached through the bootstrap port by address.

    Each is held by its sessions. (A WeakValueDictionary would cost a new connection as much as its session does.)
    """

    __slots__ = ("_many", "_nodes", "traffic")

    def __init__(self) -> None:
        self._nodes: dict[int | str | None, ref[NodeHealth]] = {}
        self._many = MANY
        self.traffic: dict[int | None, tuple[ByteCount, ByteCount]] = {}
        """By the node id of a port: bytes read from clients, and from the broker."""

    def traffic_of(self, node: int | None) -> tuple[ByteCount, ByteCount]:
        """Return the two byte counters of this node: from clients, and from the broker."""
        found = self.traffic.get(node)
        if found is None:
            found = self.traffic[node] = ByteCount(), ByteCount()
        return found

    def at(self, node: int | None) -> list[NodeHealth]:
        """Return the health of each broker that sessions of this node's port use (None: the bootstrap port)."""
        if node is None:
            known = [held() for held in self._nodes.values()]
            return [each for each in known if each is not None and each.address]
        found = self._maybe(node)
        return [] if found is None else [found]

    def health(self, node: int | str | None) -> NodeHealth:
        """Return the health record that all sessions with this broker share; it is dropped with the last of them."""
        found = self._maybe(node)
        if found is None:
            if len(self._nodes) >= self._many:
                self._nodes = {key: held for key, held in self._nodes.items() if held() is not None}
                self._many = max(MANY, 2 * len(self._nodes))
            found = NodeHealth(node if isinstance(node, str) else "")
            self._nodes[node] = ref(found)
        return found

    def _maybe(self, node: int | str | None) -> NodeHealth | None:
        held = self._nodes.get(node)
        return None if held is None else held()
