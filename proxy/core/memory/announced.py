"""Bytes announced to a broker that have not all reached it: a bound for each node.

It is memory.upstream_announced_max_bytes. Why: Kafka takes memory for a whole request as soon as it has read its size
(NetworkReceive). Clients that announce much and send little use up a broker's heap with a few bytes.

Rules:
- Counted is a request that streams, is larger than SMALL_BYTES and is not whole in the read in which it begins. A
  smaller one always passes; a request that is kept whole reaches the broker whole.
- Beyond the bound the next such request waits, muted, in its node's line, and is served first come, first served. One
  is always let in, however large. The bootstrap ports count as one node.
- A request that is let in has to come: at the least rate of slow senders, and by their deadline once others wait.
- It is given back with its last byte. If that never comes, when the connection to the broker is closed: until then the
  broker has its memory.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.core.memory.claim import MemoryClaim

SMALL_BYTES = 64 << 10
NEVER_BYTES = 1 << 40


class Node:
    """What is announced to one node, and which sessions wait."""

    __slots__ = ("line", "used_bytes")

    def __init__(self) -> None:
        self.used_bytes = 0
        self.line: OrderedDict[MemoryClaim, int] = OrderedDict()


class AnnouncedBytes:
    """See the module. `max_bytes` for each node; 0: no bound. Requests up to `small_bytes` are never counted."""

    __slots__ = ("_nodes", "max_bytes", "small_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._nodes: dict[int | None, Node] = {}
        self.resize(max_bytes)

    def resize(self, max_bytes: int) -> None:
        """Another bound from now on."""
        self.max_bytes = max_bytes
        self.small_bytes = SMALL_BYTES if max_bytes else NEVER_BYTES
        for node_id, node in tuple(self._nodes.items()):
            self._serve(node_id, node)

    def bytes_of(self, node_id: int | None) -> int:
        """What is announced to it and not finished."""
        node = self._nodes.get(node_id)
        return 0 if node is None else node.used_bytes

    def try_begin(self, claim: MemoryClaim, whole_bytes: int) -> bool:
        """Count the session's next request, which streams; False: it stands in line now, muted."""
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
        """The last byte has gone on, or the broker has forgotten it."""
        size_bytes, claim.announced_bytes = claim.announced_bytes, 0
        node = self._nodes.get(claim.owner.peer.node_id)
        if size_bytes and node is not None:
            node.used_bytes -= size_bytes
            self._serve(claim.owner.peer.node_id, node)

    def leave(self, claim: MemoryClaim) -> None:
        """The session ends: it waits no more."""
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
