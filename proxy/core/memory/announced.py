"""Limits, for each node, the bytes of unfinished requests whose size the broker has already read.

The limit is memory.upstream_announced_max_bytes. Reason: Kafka allocates memory for a whole request as soon as it has
read its size (NetworkReceive). Clients that announce large requests and then stall could exhaust a broker's heap.

Rules:
- A request counts if it streams, is larger than SMALL_BYTES and is incomplete in the read in which it begins. A
  smaller one always passes; a request that is buffered whole reaches the broker whole.
- Once the limit is reached, the next such request waits in its node's queue (first come, first served) with its client
  muted. One request is always admitted, however large. The bootstrap ports count as one node.
- An admitted request must arrive at the minimum rate, and before the read timeout once other requests wait.
- Its bytes are released with its last byte. If that never arrives, they are released when the connection to the broker
  closes, because the broker keeps its memory until then.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.core.memory.claim import MemoryClaim

SMALL_BYTES = 64 << 10
NEVER_BYTES = 1 << 40


class Node:
    """The bytes announced to one node, and the queue of claims that wait for it, with the size of each request."""

    __slots__ = ("line", "used_bytes")

    def __init__(self) -> None:
        self.used_bytes = 0
        self.line: OrderedDict[MemoryClaim, int] = OrderedDict()


class AnnouncedBytes:
    """Admits streamed requests up to `max_bytes` for each node (0: no limit). `small_bytes` or less never count."""

    __slots__ = ("_nodes", "max_bytes", "small_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._nodes: dict[int | None, Node] = {}
        self.resize(max_bytes)

    def resize(self, max_bytes: int) -> None:
        """Set another limit for each node, and admit waiting requests that now fit."""
        self.max_bytes = max_bytes
        self.small_bytes = SMALL_BYTES if max_bytes else NEVER_BYTES
        for node_id, node in tuple(self._nodes.items()):
            self._serve(node_id, node)

    def bytes_of(self, node_id: int | None) -> int:
        """Return the bytes of unfinished requests announced to this node."""
        node = self._nodes.get(node_id)
        return 0 if node is None else node.used_bytes

    def try_begin(self, claim: MemoryClaim, whole_bytes: int) -> bool:
        """Count the session's next streamed request; False: its client is muted and queued."""
        if claim.announced_bytes:
            return True  # granted while it waited
        node_id = claim.owner.peer.node_id
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = Node()
        if node.line or not self._fits(node, whole_bytes):
            self._stand(claim, node, whole_bytes)
            return False
        self._take(claim, node, whole_bytes)
        return True

    def give_back(self, claim: MemoryClaim) -> None:
        """Release a request whose last byte was forwarded, or whose broker connection is closed."""
        size_bytes, claim.announced_bytes = claim.announced_bytes, 0
        node = self._nodes.get(claim.owner.peer.node_id)
        if size_bytes and node is not None:
            node.used_bytes -= size_bytes
            self._serve(claim.owner.peer.node_id, node)

    def leave(self, claim: MemoryClaim) -> None:
        """Remove the claim of a session that ends from the queue."""
        node = self._nodes.get(claim.owner.peer.node_id)
        if node is not None and claim.line is node.line:
            claim.line = None
            del node.line[claim]
            self._serve(claim.owner.peer.node_id, node)

    def others_wait(self, claim: MemoryClaim) -> bool:
        """Whether other requests wait for the same node."""
        node = self._nodes.get(claim.owner.peer.node_id)
        return node is not None and bool(node.line)

    # -- inside ----------------------------------------------------------------------------------

    def _fits(self, node: Node, whole_bytes: int) -> bool:
        used_bytes = node.used_bytes
        return not (used_bytes and self.max_bytes) or used_bytes + whole_bytes <= self.max_bytes

    def _take(self, claim: MemoryClaim, node: Node, whole_bytes: int) -> None:
        node.used_bytes += whole_bytes
        claim.announced_bytes = whole_bytes
        claim.begin(claim.room.now_ms)
        claim.watch(claim.room.now_ms)

    def _stand(self, claim: MemoryClaim, node: Node, whole_bytes: int) -> None:
        claim.stand_in(node.line, whole_bytes)
        claim.refuse()
        claim.owner.on_memory_refused()

    def _serve(self, node_id: int | None, node: Node) -> None:
        line = node.line
        while line:
            claim, whole_bytes = next(iter(line.items()))
            if not self._fits(node, whole_bytes):
                return
            del line[claim]
            claim.line = None
            self._take(claim, node, whole_bytes)
            claim.owner.on_memory_granted()
        if not node.used_bytes:
            self._nodes.pop(node_id, None)
