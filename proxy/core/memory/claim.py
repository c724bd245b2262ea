"""What one session has of the pool of requests, the line it waits in, and the time it has to send what it announced.

Rules (a frame that holds memory before it is here must come: slowloris):
- Time counts from when its memory was granted. When its broker does not take what it has sent, or answers
  nothing, that is not its fault: then the time begins again.
- A client that waits for memory is not read, and is not closed for waiting. But it must have something to send: what
  was read of it and what stands in the kernel's buffer has to come at the same rate, and by the same deadline, up to
  SHOWN_BYTES or the whole frame. A client with so much to send fills the buffer at once. Without this rule, a thousand
  clients that announce much and send nothing would have the memory one after another.
- A request that streams and is announced to the broker (`proxy.core.memory.announced`) must come at the least rate; the
  deadline holds for it while others wait for the same broker.
- A head that does not end holds what it has sent, and is judged alike once that is more than HEAD_BYTES.
- One timer a session at most, set when a read ends inside such a frame: nothing per ordinary request.
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
"""No ordinary head is as long: a client id and a transactional id."""
SHOWN_BYTES = 4096
"""So much, sent and not read, shows that there is more; the smallest receive buffer takes it."""


class ClientSide(Protocol):
    """A client's channel: what was read of it and is not begun, and why it is not read."""

    carry: bytes
    muted: int


class Claimant(Protocol):
    """What a claim sees of its session, and what it tells it."""

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
    """What a client has sent that nobody has read yet, in bytes; None: that cannot be known."""

    unread_bytes: Callable[[Claimant], int] | None


class OthersWait(Protocol):
    """Whether other requests wait for the node that a claim's request streams to."""

    def others_wait(self, claim: MemoryClaim) -> bool: ...


class MemoryRoom(Protocol):
    """What all claims share: the clock, the limits, and who grants memory."""

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
    """What one user at one address has reserved, by which sessions, and which of its sessions wait for their own."""

    __slots__ = ("holders", "line", "pair", "used_bytes")

    def __init__(self, pair: tuple[str, str]) -> None:
        self.pair = pair
        self.used_bytes = 0
        self.holders: dict[MemoryClaim, None] = {}
        self.line: OrderedDict[MemoryClaim, int] = OrderedDict()


class MemoryClaim:
    """One session's. Made when it first needs memory for a request.

    `Reservations` and `AnnouncedBytes` write what they have granted; the read timer is the claim's own.
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
        self.reserved_bytes = 0  # for the frame that is kept whole
        self.head_reserved = False  # that is for the head of one
        self.holds = False  # counted among the requests held here
        self.share: Share | None = None
        self.line: OrderedDict[MemoryClaim, int] | None = None  # it waits there
        self.short_since_us = 0  # since when its next request waits for memory
        self.announced_bytes = 0  # of the request that streams (`proxy.core.memory.announced`)
        self.since_ms = 0  # from when on the time counts in which its request has to come
        self.timer: Timer | None = None

    # -- waiting ---------------------------------------------------------------------------------

    def stand_in(self, line: OrderedDict[MemoryClaim, int], whole_bytes: int) -> None:
        """Wait in `line` for `whole_bytes`; the client is muted."""
        self.line = line
        line[self] = whole_bytes

    def refuse(self) -> None:
        """Mute the client; from now on it has to show that it has something to send."""
        self.short_since_us = self.room.now_us
        if self.room.reservations.unread_bytes is not None:
            self.since_ms = self.room.now_ms
            self.watch(self.since_ms)

    def take_short_since_us(self) -> int:
        """Return since when the request waited that has its memory now, once; 0 if it did not wait."""
        since_us, self.short_since_us = self.short_since_us, 0
        return since_us

    def release(self) -> None:
        """The session is closed: no timer of it is left."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    # -- the read timer --------------------------------------------------------------------------

    def begin(self, now_ms: int) -> None:
        """The time counts from now on."""
        self.since_ms = now_ms

    def watch(self, now_ms: int) -> None:
        """A read has ended inside a frame (or head) that holds memory: from now on it is looked at."""
        if self.timer is None:
            due_ms = self.room.slow_client_limits.due_ms(self.since_ms, 0)
            if due_ms is not None:
                self.timer = self.room.timers.arm(max(due_ms, now_ms + 1), self._on_due)

    def watch_head(self, now_ms: int) -> None:
        """A head that is too long already, and not whole."""
        if self.timer is None:
            self.since_ms = now_ms
            self.watch(now_ms)

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """Use the timer for something else: this client is not read any more."""
        self.release()
        self.timer = self.room.timers.arm(at_ms, call)

    def _on_due(self, now_ms: int) -> None:
        try:
            self._look(now_ms)
        except Exception as fault:  # noqa: BLE001 - whatever it is, it costs this session only
            self.owner.fail_and_attend(fault)

    def _look(self, now_ms: int) -> None:
        """End the session if what it sends does not come, else look again when it may be late."""
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
                due_ms = max(due_ms, now_ms + HASTY_MS)  # past its deadline, and no other waits
            self.timer = self.room.timers.arm(max(due_ms, now_ms + 1), self._on_due)

    def end_slow(self, now_ms: int) -> None:
        """Its request does not come, or not fast enough: the session ends."""
        found = self.received()
        if found is not None:
            detail = f"{found[0]} of {found[1]} in {now_ms - self.since_ms} ms"
            self.owner.end_and_attend(CloseReason.REQUEST_READ_TIMEOUT, detail, now_ms)

    def received(self) -> tuple[int, str] | None:
        """Return how many bytes have come of what is to come, and what that is; None: nothing is to come."""
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
    """End those of a pair that is over its share that are slow; return those left that could be, the slowest first."""
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
