"""A session's claim on the request pool: its reserved bytes, the line it waits in, and its read timer.

Rules (a request that uses memory must arrive; this prevents slowloris attacks):
- Time counts from when the first memory was granted, and not while the client waits for more (but for what it sends
  meanwhile). It starts again while the broker reads no bytes or sends no replies, because the client does not cause
  that delay.
- A client that waits to begin is not read, and is not closed for waiting. But it must prove that it has data to send:
  the bytes already read and those in the kernel's buffer must arrive at the minimum rate, and by the read timeout, up
  to SHOWN_BYTES or the whole frame. A client with that much data fills the buffer at once. PROBE_MS after it began to
  wait they are counted for its place in the line, too.
- A body must arrive at the minimum rate, here or in the kernel's buffer: its client is not read while it waits. When
  others need its memory is decided by the grantors of memory.
- An incomplete request head uses memory too: the same limits apply to it once it is longer than HEAD_BYTES.
- Each session has at most one timer, set when a read ends inside such a frame; an ordinary request sets none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.core.errors import CloseReason
from proxy.core.memory.slow_clients import SHARE_CHECK_MS, yields

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Peer
    from proxy.core.memory.pool import MemoryPool
    from proxy.core.memory.slow_clients import ReadLimits
    from proxy.core.memory.waiting_line import WaitingLine
    from proxy.core.purgatory.timers import Timer, Timers

    Pair = tuple[str, str, bool]
    """A user, an address, and whether requests of more than ordinary size are meant."""

HEAD_BYTES = 4096
"""An ordinary request head, with its client id and transactional id, is shorter than this."""
SHOWN_BYTES = 4096
"""This many unread bytes prove that a client has data to send; the smallest receive buffer holds them."""
FULL_BYTES = 32 << 10
"""With so many unread bytes the kernel's buffer may be full: they show no rate."""
PROBE_MS = 100
"""The time in which the first bytes of a request show its rate. A shorter time counts as this one."""


class ClientSide(Protocol):
    """A client's channel: `carry` has bytes read but not yet processed, `muted` the reasons why it is not read."""

    carry: bytes
    muted: int


class Claimant(Protocol):
    """The part of a session that its claim reads and calls."""

    @property
    def handle(self) -> object: ...
    @property
    def peer(self) -> Peer: ...
    @property
    def ended(self) -> bool: ...
    @property
    def paced(self) -> bool: ...
    @property
    def client(self) -> ClientSide: ...
    @property
    def is_kept_waiting(self) -> bool: ...
    @property
    def request_left(self) -> int: ...
    @property
    def gathered_bytes(self) -> int | None: ...
    def on_memory_refused(self) -> None: ...
    def on_memory_granted(self) -> None: ...
    def end_and_ask_for_turn(self, reason: CloseReason, detail: str, now_ms: int) -> None: ...
    def fail_and_ask_for_turn(self, fault: Exception) -> None: ...


class Grantor(Protocol):
    """Grants memory. `unread_bytes` returns how many bytes of a client wait unread in the kernel's buffer; None: that
    is unknown.
    """

    unread_bytes: Callable[[Claimant], int] | None

    def on_probed(self, claim: MemoryClaim) -> None: ...


class Announced(Protocol):
    """Tells how long the first request that waits for the claim's node would take; None: none waits."""

    def waiting_left_ms(self, claim: MemoryClaim) -> int | None: ...


class MemoryRoom(Protocol):
    """The state that all claims share: the clock, the limits, and the grantors of memory."""

    @property
    def now_ms(self) -> int: ...
    @property
    def now_us(self) -> int: ...
    @property
    def timers(self) -> Timers: ...
    @property
    def slow_client_limits(self) -> ReadLimits: ...
    @property
    def request_pool(self) -> MemoryPool: ...
    @property
    def reservations(self) -> Grantor: ...
    @property
    def announced(self) -> Announced: ...


class Share:
    """The bytes reserved by one pair, the claims that hold them, its claims that wait for this share, and the one that
    may exceed it. The line is made when the first one waits.
    """

    __slots__ = ("first", "holders", "line", "pair", "used_bytes")

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.used_bytes = 0
        self.holders: dict[MemoryClaim, None] = {}
        self.line: WaitingLine[MemoryClaim] | None = None
        self.first: MemoryClaim | None = None


class MemoryClaim:
    """The claim of one session. It is created when the session first needs memory for a request.

    `Reservations` and `AnnouncedBytes` set the granted bytes; the claim itself manages the read timer.
    """

    __slots__ = (
        "announced_bytes",
        "head_reserved",
        "is_counted",
        "is_judged",
        "left_ms",
        "line",
        "owner",
        "probed_id",
        "recent_ms",
        "reserved_bytes",
        "room",
        "seen_bytes",
        "seen_ms",
        "share",
        "short_since_us",
        "since_ms",
        "timer",
        "waits_at_bytes",
        "waits_since_ms",
        "whole_bytes",
    )

    def __init__(self, owner: Claimant, room: MemoryRoom) -> None:
        self.owner = owner
        self.room = room
        self.whole_bytes = 0  # of the frame that memory is reserved for, or that waits for some
        self.reserved_bytes = 0  # for the part of it that has arrived, and the next step
        self.head_reserved = False  # whether they are for the head of one
        self.is_counted = False  # whether it is counted in `Reservations.requests`
        self.share: Share | None = None  # that the reserved bytes belong to
        self.line: WaitingLine[MemoryClaim] | None = None  # the line it waits in
        self.waits_since_ms = 0
        self.is_judged = False  # whether what came meanwhile was looked at (`slow_holders`)
        self.waits_at_bytes = 0  # that had arrived when it began to wait
        self.left_ms = 0  # how long its request was expected to take when it began to wait
        self.short_since_us = 0  # since when its next request waits for memory
        self.announced_bytes = 0  # of the request that streams (`proxy.core.memory.announced`)
        self.probed_id = 0  # of the request whose first bytes show its rate (`announced`)
        self.since_ms = 0  # when the time began in which its request must arrive
        self.seen_bytes = 0  # that had arrived when others needed its memory, and when that was
        self.seen_ms = -1
        self.recent_ms = 0  # how long the rest takes at the rate since then (`slow_holders`)
        self.timer: Timer | None = None

    # -- waiting ---------------------------------------------------------------------------------

    @property
    def is_for_next(self) -> bool:
        """Whether memory is reserved for the next request, or it has waited for some."""
        return self.reserved_bytes > 0 or self.short_since_us > 0

    @property
    def is_free(self) -> bool:
        """Whether no memory is granted, and none was waited for."""
        return not (
            self.reserved_bytes
            or self.short_since_us
            or self.announced_bytes
            or self.head_reserved
            or self.line is not None
        )

    def wait_in(
        self,
        line: WaitingLine[MemoryClaim],
        size_bytes: int,
        here_bytes: int = 0,
        *,
        ahead: bool = False,
    ) -> None:
        """Join `line` to wait for `size_bytes`; the caller mutes the client. `ahead`: before all others.

        `here_bytes` of the request were read and are not reserved yet.
        """
        now_ms = self.room.now_ms
        if self.line is None:
            self.waits_since_ms = now_ms
            self.is_judged = False
            self.waits_at_bytes = self.arrived_bytes(here_bytes)
            self.left_ms = self.rest_ms(now_ms, here_bytes)
        else:  # judged before: what has come since shows no rate
            self.line.discard(self)
        self.line = line
        line.add(self, size_bytes, 0 if ahead else now_ms + self.left_ms)

    def move_to(self, line: WaitingLine[MemoryClaim], left_ms: int) -> None:
        """Wait in `line` from now on, because the rest of the request was found to take `left_ms`."""
        self.left_ms = left_ms
        ends_ms = self.waits_since_ms + left_ms
        before = self.line
        if before is line:
            line.move(self, ends_ms)
        elif before is not None:
            line.add(self, before.places[self].size_bytes, ends_ms)
            before.discard(self)
            self.line = line

    def leave_line(self) -> None:
        """Leave the line. Time spent in it does not count, but for what has arrived meanwhile: that shows no rate, and
        counts as if it had come at the mean one.
        """
        if self.line is None:
            return
        now_ms = self.room.now_ms
        free_ms = now_ms - self.waits_since_ms
        if self.owner.request_left:
            came_bytes = self.arrived_bytes() - self.waits_at_bytes
            took_ms = came_bytes * self.elapsed_ms(now_ms) // max(self.waits_at_bytes, 1)
            free_ms = max(0, free_ms - took_ms)
        self.line.discard(self)
        self.line = None
        self.since_ms += free_ms

    def refuse(self) -> None:
        """Start the wait of a new request: from now on the client must prove that it has data to send."""
        self.short_since_us = self.room.now_us
        self.since_ms = self.room.now_ms
        if self.room.reservations.unread_bytes is not None and self.timer is None:
            self.timer = self.room.timers.arm(self.since_ms + PROBE_MS, self._on_due)

    def take_short_since_us(self) -> int:
        """Return and reset the time, in µs, at which the request began to wait for memory; 0 if it did not."""
        since_us, self.short_since_us = self.short_since_us, 0
        return since_us

    def release(self) -> None:
        """Cancel the timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    # -- the rate --------------------------------------------------------------------------------

    def arrived_bytes(self, here_bytes: int = 0) -> int:
        """Return how much of the request has arrived, here or in the kernel's buffer."""
        owner = self.owner
        left = owner.request_left
        if left:
            here_bytes = max(0, (self.announced_bytes or self.whole_bytes) - left)
        else:
            here_bytes = max(here_bytes, len(owner.client.carry))
        unread_bytes = self.room.reservations.unread_bytes
        return here_bytes + (0 if unread_bytes is None else unread_bytes(owner))

    def rest_ms(self, now_ms: int, here_bytes: int = 0) -> int:
        """Return how long the rest of the request takes, in ms, at the rate at which it has arrived so far."""
        arrived_bytes = self.arrived_bytes(here_bytes)
        missing_bytes = (self.announced_bytes or self.whole_bytes) - arrived_bytes
        if missing_bytes <= 0:
            return 0
        return missing_bytes * max(self.elapsed_ms(now_ms), PROBE_MS) // max(arrived_bytes, 1)

    def elapsed_ms(self, now_ms: int) -> int:
        """Return how much of its time the request has used, in ms: inside it, waiting for memory does not count."""
        waits = self.line is not None and self.owner.request_left > 0
        return (self.waits_since_ms if waits else now_ms) - self.since_ms

    def shown_rest_ms(self, now_ms: int) -> int:
        """Return how long the rest takes of a request that waits, at the rate at which the kernel's buffer was filled
        meanwhile; 0 if that has as much as shows no rate, or is unknown.
        """
        owner, unread_bytes = self.owner, self.room.reservations.unread_bytes
        shown_bytes = FULL_BYTES if unread_bytes is None else unread_bytes(owner)
        if shown_bytes >= FULL_BYTES:
            return 0
        missing_bytes = max(0, self.whole_bytes - self.arrived_bytes())
        return missing_bytes * (now_ms - self.waits_since_ms) // max(shown_bytes, 1)

    # -- the read timer --------------------------------------------------------------------------

    def begin(self, now_ms: int) -> None:
        """Start the time in which the request must arrive."""
        self.since_ms = now_ms

    def arm_timer(self, now_ms: int) -> None:
        """Arm the read timer, unless it is: a read has ended inside a frame (or head) that uses memory."""
        if self.timer is None:
            due_ms = self.room.slow_client_limits.due_ms(self.since_ms, 0)
            if due_ms is not None:
                self.timer = self.room.timers.arm(max(due_ms, now_ms + 1), self._on_due)

    def arm_head_timer(self, now_ms: int) -> None:
        """Start the time and the read timer for an incomplete head that is longer than HEAD_BYTES."""
        if self.timer is None:
            self.since_ms = now_ms
            self.arm_timer(now_ms)

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """Replace the read timer by another call, for a client that is no longer read."""
        self.release()
        self.timer = self.room.timers.arm(at_ms, call)

    def _on_due(self, now_ms: int) -> None:
        try:
            self._check_rate(now_ms)
        except Exception as fault:  # noqa: BLE001 - any fault ends this session only
            self.owner.fail_and_ask_for_turn(fault)

    def _check_rate(self, now_ms: int) -> None:
        """End the session if its request stalls; else check again when it may be late."""
        self.timer = None
        if self.line is not None and not self.owner.request_left and now_ms > self.since_ms:
            self.room.reservations.on_probed(self)
        found = None if self.owner.ended else self.received()
        if found is None:
            return
        received_bytes = found[0]
        if self.line is None and self.owner.is_kept_waiting:
            self.since_ms = now_ms
        limits = self.room.slow_client_limits
        elapsed_ms = self.elapsed_ms(now_ms)
        is_body = self.owner.request_left > 0
        late = 0 < limits.timeout_ms <= elapsed_ms
        if late and is_body:
            late = self._yields_node(now_ms)
        if late or limits.is_too_slow(received_bytes, elapsed_ms):
            self.end_slow(now_ms)
            return
        due_ms = limits.due_ms(now_ms - elapsed_ms, received_bytes, is_body=is_body)
        if self.announced_bytes and limits.timeout_ms:  # others may begin to wait for the node
            asked_ms = max(now_ms + SHARE_CHECK_MS, self.since_ms + limits.timeout_ms)
            due_ms = asked_ms if due_ms is None else min(due_ms, asked_ms)
        if due_ms is not None:
            # the time of one that waits stands still: it may be due again at once
            pause_ms = SHARE_CHECK_MS if is_body and self.line is not None else 1
            self.timer = self.room.timers.arm(max(due_ms, now_ms + pause_ms), self._on_due)

    def _yields_node(self, now_ms: int) -> bool:
        """Return whether a request that streams arrives so slowly that it yields to one that waits for its node."""
        if not self.announced_bytes:
            return False
        waiting_left_ms = self.room.announced.waiting_left_ms(self)
        return waiting_left_ms is not None and yields(self.rest_ms(now_ms), waiting_left_ms)

    def end_slow(self, now_ms: int, why: str = "") -> None:
        """End the session because its request stalls, or (`why`) arrives slowly while others need its memory."""
        found = self.received()
        if found is not None:
            detail = f"{found[0]} of {found[1]} in {self.elapsed_ms(now_ms)} ms{why}"
            self.owner.end_and_ask_for_turn(CloseReason.REQUEST_READ_TIMEOUT, detail, now_ms)

    def received(self) -> tuple[int, str] | None:
        """Return how many bytes have arrived, and a text that names the expected bytes; None: none are expected."""
        owner, carry = self.owner, self.owner.client.carry
        left, unread_bytes = owner.request_left, self.room.reservations.unread_bytes
        if self.line is not None and not left:
            if unread_bytes is None:
                return None
            shown_bytes = len(carry) + unread_bytes(owner)
            whole = 4 + int.from_bytes(carry[:4], "big") if len(carry) >= 4 else SHOWN_BYTES
            if shown_bytes >= min(whole, SHOWN_BYTES):
                return None
            return shown_bytes, f"{whole} bytes of a request that waits for memory"
        if left > 0:
            gathered_bytes = owner.gathered_bytes
            if gathered_bytes is not None:
                whole_bytes = gathered_bytes + left
                if unread_bytes is not None:  # the client is not read while it waits
                    gathered_bytes += min(unread_bytes(owner), left)
                return gathered_bytes, f"{whole_bytes} bytes of a request"
            if self.announced_bytes:
                whole_bytes = self.announced_bytes
                return whole_bytes - left, f"{whole_bytes} bytes of a request"
        if len(carry) > HEAD_BYTES and not owner.client.muted:
            return len(carry), "the beginning of a request"
        return None
