"""Limits, for each node, the bytes of unfinished requests whose size the broker has already read.

The limit is memory.upstream_announced_max_bytes. Reason: Kafka allocates memory for a whole request as soon as it has
read its size (NetworkReceive). Clients that announce large requests and then stall could exhaust a broker's heap.

Rules:
- A request counts if it streams, is larger than SMALL_BYTES and is incomplete in the read in which it begins. A
  smaller one always passes; a request that is buffered whole reaches the broker whole.
- Only a fast request streams: FAST_BYTES of it are here, or come within PROBE_MS. A slow one, and one beyond the limit,
  is buffered whole (`proxy.core.memory.reservations`), from bytes that arrive, up to MAX_GATHERED_BYTES.
- A larger one streams, too, or waits with its client muted, by the time at which it is expected to end. A slow one
  streams within LARGE_PART of the limit, or while no other such request does. Beyond that, one fast one is admitted,
  however large: the maximum is the limit and one largest request. The bootstrap ports count as one node.
- A request that streams must arrive at the minimum rate. After the read timeout it yields to one that waits for the
  node and would end much sooner.
- Its bytes are released with its last byte. If that never arrives, they are released when the connection to the broker
  closes, because the broker keeps its memory until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.memory.claim import PROBE_MS
from proxy.core.memory.pool_part import LARGE_PART, ORDINARY_BYTES
from proxy.core.memory.waiting_line import WaitingLine

if TYPE_CHECKING:
    from proxy.core.memory.claim import MemoryClaim

SMALL_BYTES = 64 << 10
NEVER_BYTES = 1 << 40
FAST_BYTES = 32 << 10
MAX_GATHERED_BYTES = 16 << 20
"""The largest request that is buffered whole because it is slow: `sluice check` counts as much beyond the pool."""

STREAMS: Final = 0
GATHERS: Final = 1
WAITS: Final = 2
"""How a request begins: it streams, it is buffered whole, or not yet."""


class Node:
    """The bytes announced to one node, those of larger requests, the one beyond the limit, and those that wait."""

    __slots__ = ("first", "large_bytes", "line", "used_bytes")

    def __init__(self) -> None:
        self.used_bytes = 0
        self.large_bytes = 0
        self.first: MemoryClaim | None = None
        self.line: WaitingLine[MemoryClaim] = WaitingLine()


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

    def may_begin(self, node_id: int | None, whole_bytes: int, here_bytes: int) -> bool:
        """Return whether `begin` would let such a request stream, of a claim that is free and has no request yet.

        False, too, for one of more than ordinary size.
        """
        if here_bytes < FAST_BYTES or whole_bytes > ORDINARY_BYTES:
            return False
        node = self._nodes.get(node_id)
        if node is None:
            return whole_bytes <= self.max_bytes
        return self._may_begin(node, whole_bytes, 0, is_fast=True)

    def begin(self, claim: MemoryClaim, exchange_id: int, whole_bytes: int, here_bytes: int) -> int:
        """Return how the session's next request begins, of which so much is here: STREAMS, GATHERS or WAITS.

        If it waits, more of it has to be read first; or its client is muted until there is room.
        """
        if claim.announced_bytes:
            return STREAMS  # granted while it waited
        if claim.reserved_bytes:
            return GATHERS  # as before
        now_ms = claim.room.now_ms
        if claim.probed_id != exchange_id:
            claim.probed_id = exchange_id
            claim.begin(now_ms)
        elapsed_ms = now_ms - claim.since_ms
        is_fast = here_bytes >= FAST_BYTES and elapsed_ms <= PROBE_MS
        if not is_fast and elapsed_ms < PROBE_MS:
            claim.arm_timer(now_ms)
            return WAITS
        node_id = claim.owner.peer.node_id
        node = self._nodes.get(node_id) or Node()
        max_bytes = claim.room.request_pool.max_single_bytes
        may_gather = whole_bytes <= min(max_bytes, MAX_GATHERED_BYTES)
        may_stream = is_fast or not may_gather
        claim.whole_bytes = whole_bytes
        ends_ms = now_ms + claim.rest_ms(now_ms, here_bytes) if node.line else 0
        if may_stream and self._may_begin(node, whole_bytes, ends_ms, is_fast=is_fast):
            self._nodes[node_id] = node
            self._take(claim, node, whole_bytes)
            return STREAMS
        if may_gather:
            return GATHERS
        self._nodes[node_id] = node
        claim.refuse()
        claim.wait_in(node.line, whole_bytes if is_fast else -whole_bytes, here_bytes)
        claim.owner.on_memory_refused()
        return WAITS

    def give_back(self, claim: MemoryClaim) -> None:
        """Release a request whose last byte was forwarded, or whose broker connection is closed."""
        size_bytes, claim.announced_bytes = claim.announced_bytes, 0
        node = self._nodes.get(claim.owner.peer.node_id)
        if size_bytes and node is not None:
            node.used_bytes -= size_bytes
            if size_bytes > ORDINARY_BYTES:
                node.large_bytes -= size_bytes
            if node.first is claim:
                node.first = None
            self._serve(claim.owner.peer.node_id, node)

    def leave(self, claim: MemoryClaim) -> None:
        """Remove the claim of a session that ends from the line."""
        node = self._nodes.get(claim.owner.peer.node_id)
        if node is not None and claim.line is node.line:
            claim.leave_line()
            self._serve(claim.owner.peer.node_id, node)

    def waiting_left_ms(self, claim: MemoryClaim) -> int | None:
        """Return how long the first request that waits for the claim's node would take; None: none waits."""
        node = self._nodes.get(claim.owner.peer.node_id)
        place = None if node is None else node.line.first()
        return None if place is None else place.claim.left_ms

    # -- inside ----------------------------------------------------------------------------------

    def _may_begin(self, node: Node, whole_bytes: int, ends_ms: int, *, is_fast: bool) -> bool:
        """Return whether a request that would end at `ends_ms` may begin to stream without waiting."""
        if whole_bytes <= ORDINARY_BYTES:
            first_bytes = 0 if node.first is None else node.first.announced_bytes
            return node.used_bytes - first_bytes + whole_bytes <= self.max_bytes
        return not node.line.precedes(ends_ms) and self._fits(node, whole_bytes, is_fast=is_fast)

    def _fits(self, node: Node, whole_bytes: int, *, is_fast: bool) -> bool:
        """Return whether a larger request fits: within its part, or alone, or beyond the limit while that is kept."""
        if self._is_within(node, whole_bytes) or not self.max_bytes:
            return True
        may_exceed = is_fast and node.first is None
        return node.used_bytes <= self.max_bytes and (may_exceed or not node.large_bytes)

    def _is_within(self, node: Node, whole_bytes: int) -> bool:
        return (
            node.used_bytes + whole_bytes <= self.max_bytes
            and node.large_bytes + whole_bytes <= self.max_bytes * LARGE_PART
        )

    def _take(self, claim: MemoryClaim, node: Node, whole_bytes: int) -> None:
        if whole_bytes > ORDINARY_BYTES:
            if node.large_bytes and not self._is_within(node, whole_bytes):
                node.first = claim
            node.large_bytes += whole_bytes
        node.used_bytes += whole_bytes
        claim.announced_bytes = whole_bytes
        claim.begin(claim.room.now_ms)
        claim.arm_timer(claim.room.now_ms)

    def _serve(self, node_id: int | None, node: Node) -> None:
        while (place := node.line.first()) is not None:
            whole_bytes = abs(place.size_bytes)
            if not self._fits(node, whole_bytes, is_fast=place.size_bytes > 0):
                return
            place.claim.leave_line()
            self._take(place.claim, node, whole_bytes)
            place.claim.owner.on_memory_granted()
        if not node.used_bytes:
            self._nodes.pop(node_id, None)
