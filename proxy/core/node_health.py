"""How long a broker has been silent: what all connections of this process to one broker know together.

Rules:
- A broker that sends a byte on any connection is alive. A read of replies costs one store for that.
- An idle broker is not silent: silence counts from when something was owed, or from the last byte if that came later.
- Once a request was answered in its place, the broker is known to be silent. Requests that come later need not
  prove it again, until it is heard or the request it still owes is gone with its connection.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

NOTHING_OWED = -1
"""Instead of a time: the broker is not known to be silent."""


class NodeHealth:
    """One broker. `owed` counts the replies that it still owes for requests answered here."""

    __slots__ = ("__weakref__", "address", "heard_ms", "owed", "owed_since_ms")

    def __init__(self, address: str = "") -> None:
        self.address = address
        """HOST:PORT, where the bootstrap port led to it."""
        self.heard_ms = 0
        self.owed = 0
        self.owed_since_ms = NOTHING_OWED

    @property
    def is_silent(self) -> bool:
        """A request was answered in its place, and nothing has come from it since it began to owe the answer."""
        return self.owed > 0 and self.owed_since_ms >= self.heard_ms

    def silent_since_ms(self, owed_since_ms: int) -> int:
        """Since when nothing has come, for a request that has been owed since then."""
        since_ms = max(self.heard_ms, owed_since_ms)
        if self.is_silent:
            return min(since_ms, self.owed_since_ms)
        return since_ms

    def on_answered_here(self, owed_since_ms: int = NOTHING_OWED) -> None:
        """A request was answered in the broker's place. `owed_since_ms`: because the broker is silent."""
        if owed_since_ms != NOTHING_OWED:
            self.owed_since_ms = self.silent_since_ms(owed_since_ms)
        self.owed += 1

    def on_settled(self) -> None:
        """The reply to such a request has come, or its connection has ended."""
        self.owed -= 1
        if not self.owed:
            self.owed_since_ms = NOTHING_OWED


class Nodes:
    """The brokers that somebody is connected to: by node id, or by address where the bootstrap port led to."""

    __slots__ = ("_nodes", "traffic")

    def __init__(self) -> None:
        self._nodes: WeakValueDictionary[int | str | None, NodeHealth] = WeakValueDictionary()
        self.traffic: dict[int | None, tuple[list[int], list[int]]] = {}
        """By node of our ports: bytes read of clients and of the broker, one number each, which each read adds to."""

    def traffic_of(self, node: int | None) -> tuple[list[int], list[int]]:
        """The two numbers of this node."""
        return self.traffic.setdefault(node, ([0], [0]))

    def at(self, node: int | None) -> list[NodeHealth]:
        """What is known of the brokers behind this port (None: bootstrap), while somebody is connected to them."""
        if node is None:
            return [each for each in self._nodes.values() if each.address]
        found = self._nodes.get(node)
        return [] if found is None else [found]

    def health(self, node: int | str | None) -> NodeHealth:
        """What all sessions with this broker share; forgotten with the last of them."""
        found = self._nodes.get(node)
        if found is None:
            found = self._nodes[node] = NodeHealth(node if isinstance(node, str) else "")
        return found
