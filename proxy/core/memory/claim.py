"""A session's claim on the request pool: its reserved bytes, the queue it waits in, and its read timer.

Rules (a frame that reserves memory before it has arrived must arrive in time; this prevents slowloris attacks):
- Time counts from when the memory was granted. It starts again while the broker reads no bytes or sends no replies,
  because the client does not cause that delay.
- A client that waits for memory is not read, and is not closed for waiting. But it must prove that it has data to send:
  the bytes already read and those in the kernel's buffer must arrive at the same rate, and by the same deadline, up to
  SHOWN_BYTES or the whole frame. A client with that much data fills the buffer at once. Without this rule, a thousand
  clients that announce large requests and send nothing would get the memory one after another.
- A streamed request that is announced to the broker (`proxy.core.memory.announced`) must arrive at the minimum rate.
  The deadline applies to it while other requests wait for the same broker.
- An incomplete request head uses memory too: the same limits apply to it once it is longer than HEAD_BYTES.
- Each session has at most one timer, set when a read ends inside such a frame; an ordinary request sets none.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

from proxy.core.errors import CloseReason
from proxy.core.memory.slow_clients import HASTY_MS, START_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policies.api import Peer
    from proxy.core.memory.slow_clients import ReadLimits
    from proxy.core.purgatory.timers import Timer, Timers

HEAD_BYTES = 4096
"""An ordinary request head, with its client id and transactional id, is shorter than this."""
SHOWN_BYTES = 4096
"""This many unread bytes prove that a client has data to send; the smallest receive buffer holds them."""


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
    def end_and_attend(self, reason: CloseReason, detail: str, now_ms: int) -> None: ...
    def fail_and_attend(self, fault: Exception) -> None: ...


class Unread(Protocol):
    """Returns how many bytes of a client wait unread in the kernel's buffer; None: that is unknown."""

    unread_bytes: Callable[[Claimant], int] | None


class OthersWait(Protocol):
    """Tells whether other requests wait for the node that a claim's request streams to."""

    def others_wait(self, claim: MemoryClaim) -> bool: ...


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
    def reservations(self) -> Unread: ...
    @property
    def announced(self) -> OthersWait: ...


class Share:
    """The bytes reserved by one (user, address), the claims that hold them, and its claims that wait for this share."""

    __slots__ = ("holders", "line", "pair", "used_bytes")

    def __init__(self, pair: tuple[str, str]) -> None:
        self.pair = pair
        self.used_bytes = 0
        self.holders: dict[MemoryClaim, None] = {}
        self.line: OrderedDict[MemoryClaim, int] = OrderedDict()


class MemoryClaim:
    """The claim of one session. It is created when the session first needs memory for a request.

    `Reservations` and `AnnouncedBytes` set the granted bytes; the claim itself manages the read timer.
    """

    __slots__ = (
        "announced_bytes",
        "head_reserved",
        "holds",
        "line",
        "owner",
        "reserved_bytes",
        "room",
        "share",
        "short_since_us",
        "since_ms",
        "timer",
    )

    def __init__(self, owner: Claimant, room: MemoryRoom) -> None:
        self.owner = owner
        self.room = room
        self.reserved_bytes = 0  # for the frame that is buffered whole
        self.head_reserved = False  # whether they are for the head of one
        self.holds = False  # counted among the requests held here
        self.share: Share | None = None
        self.line: OrderedDict[MemoryClaim, int] | None = None  # the queue it waits in
        self.short_since_us = 0  # since when its next request waits for memory
        self.announced_bytes = 0  # of the request that streams (`proxy.core.memory.announced`)
        self.since_ms = 0  # when the time began in which its request must arrive
        self.timer: Timer | None = None

    # -- waiting ---------------------------------------------------------------------------------

    @property
    def is_for_next(self) -> bool:
        """Whether memory is reserved for the next request, or it has waited for some."""
        return self.reserved_bytes > 0 or self.short_since_us > 0

    def stand_in(self, line: OrderedDict[MemoryClaim, int], whole_bytes: int) -> None:
        """Join the queue `line` to wait for `whole_bytes`; the caller mutes the client."""
        self.line = line
        line[self] = whole_bytes

    def refuse(self) -> None:
        """Start the wait for memory: from now on the client must prove that it has data to send."""
        self.short_since_us = self.room.now_us
        if self.room.reservations.unread_bytes is not None:
            self.since_ms = self.room.now_ms
            self.watch(self.since_ms)

    def take_short_since_us(self) -> int:
        """Return and reset the time, in µs, at which the request began to wait for memory; 0 if it did not."""
        since_us, self.short_since_us = self.short_since_us, 0
        return since_us

    def release(self) -> None:
        """Cancel the timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    # -- the read timer --------------------------------------------------------------------------

    def begin(self, now_ms: int) -> None:
        """Start the time in which the request must arrive."""
        self.since_ms = now_ms

    def watch(self, now_ms: int) -> None:
        """Arm the read timer, unless it is: a read has ended inside a frame (or head) that uses memory."""
        if self.timer is None:
            due_ms = self.room.slow_client_limits.due_ms(self.since_ms, 0)
            if due_ms is not None:
                self.timer = self.room.timers.arm(max(due_ms, now_ms + 1), self._on_due)

    def watch_head(self, now_ms: int) -> None:
        """Start the time and the read timer for an incomplete head that is longer than HEAD_BYTES."""
        if self.timer is None:
            self.since_ms = now_ms
            self.watch(now_ms)

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """Replace the read timer by another call, for a client that is no longer read."""
        self.release()
        self.timer = self.room.timers.arm(at_ms, call)

    def _on_due(self, now_ms: int) -> None:
        try:
            self._look(now_ms)
        except Exception as fault:  # noqa: BLE001 - any fault ends this session only
            self.owner.fail_and_attend(fault)

    def _look(self, now_ms: int) -> None:
        """End the session if its request arrives too slowly; else check again when it may be late."""
        self.timer = None
        found = None if self.owner.ended else self.received()
        if found is None:
            return
        received_bytes = found[0]
        if self.line is None and self.owner.is_kept_waiting:
            self.since_ms = now_ms
        limits = self.room.slow_client_limits
        elapsed_ms = now_ms - self.since_ms
        streams = self.announced_bytes > 0 and self.line is None
        late = 0 < limits.timeout_ms <= elapsed_ms
        if late and streams:
            late = self.room.announced.others_wait(self)
        is_slow = received_bytes * 1000 < limits.bytes_per_second * elapsed_ms
        if late or (elapsed_ms >= START_MS and is_slow):
            self.end_slow(now_ms)
            return
        due_ms = limits.due_ms(self.since_ms, received_bytes)
        if due_ms is not None:
            if streams:
                due_ms = max(due_ms, now_ms + HASTY_MS)  # its deadline is over, but none waits
            self.timer = self.room.timers.arm(max(due_ms, now_ms + 1), self._on_due)

    def end_slow(self, now_ms: int) -> None:
        """End the session because its request did not arrive in time or at the minimum rate."""
        found = self.received()
        if found is not None:
            detail = f"{found[0]} of {found[1]} in {now_ms - self.since_ms} ms"
            self.owner.end_and_attend(CloseReason.REQUEST_READ_TIMEOUT, detail, now_ms)

    def received(self) -> tuple[int, str] | None:
        """Return how many bytes have arrived, and a text that names the expected bytes; None: none are expected."""
        owner, carry = self.owner, self.owner.client.carry
        if self.line is not None:
            unread_bytes = self.room.reservations.unread_bytes
            if unread_bytes is None:
                return None
            shown_bytes = len(carry) + unread_bytes(owner)
            whole = 4 + int.from_bytes(carry[:4], "big") if len(carry) >= 4 else SHOWN_BYTES
            if shown_bytes >= min(whole, SHOWN_BYTES):
                return None
            return shown_bytes, f"{whole} bytes of a request that waits for memory"
        left = owner.request_left
        if left > 0:
            gathered_bytes = owner.gathered_bytes
            if gathered_bytes is not None:
                return gathered_bytes, f"{gathered_bytes + left} bytes of a request"
            if self.announced_bytes:
                whole_bytes = self.announced_bytes
                return whole_bytes - left, f"{whole_bytes} bytes of a request"
        if len(carry) > HEAD_BYTES and not owner.client.muted:
            return len(carry), "the head of a request that is not whole"
        return None


def hurry(holders: Iterable[MemoryClaim], limits: ReadLimits, now_ms: int) -> list[MemoryClaim]:
    """End the claims in `holders` that are below the minimum rate. Return those older than START_MS, slowest first."""
    left: list[tuple[float, int, MemoryClaim]] = []
    for claim in holders:
        found = None if claim.owner.ended else claim.received()
        elapsed_ms = now_ms - claim.since_ms
        if found is None or elapsed_ms < HASTY_MS or claim.owner.is_kept_waiting:
            continue
        if found[0] * 1000 < limits.bytes_per_second * elapsed_ms:
            claim.end_slow(now_ms)
        elif elapsed_ms >= START_MS and (limits.bytes_per_second or limits.timeout_ms):
            left.append((found[0] / elapsed_ms, claim.owner.peer.session_id, claim))
    return [claim for _, _, claim in sorted(left)]
