"""A frame that holds memory before it is here must come (slowloris): a deadline, and a least rate.

Rules:
- Time counts from when its memory was granted. When its broker does not take what it has sent, or answers
  nothing, that is not its fault: then the time begins anew.
- Who waits for memory is not read, and nobody is closed for that. But it must have something to send: what
  was read of it and what stands in the kernel's buffer has to come at the same rate, and by the same
  deadline, up to SHOWN_BYTES or the whole frame. Whoever has so much has filled the buffer at once; else
  a thousand who announce much and send nothing would have the memory one after another.
- While clients wait for memory, a request of a pair that has more than its share of it must come sooner: at the least
  rate from HASTY_MS on. If clients of another pair wait, requests that are not here after START_MS are given up, the
  slowest first, until the pair is within its share.
- A request that streams and is announced to the broker (`proxy.core.memory.announced`) must come at the least rate; the
  deadline holds for it while others wait for the same broker.
- A head that does not end holds what it has sent, and is judged alike once that is more than HEAD_BYTES.
- One timer a session at most, set when a read ends inside such a frame: nothing per ordinary request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.core.errors import CloseReason
from proxy.core.session.channel import Mute
from proxy.core.session.state import GATHER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.core.session.ending import SessionEnd

START_MS = 5_000
"""Nobody is called slow earlier."""
HASTY_MS = 1_000
"""But whoever has more than its share while others wait."""
HEAD_BYTES = 4096
"""No ordinary head is as long: a client id and a transactional id."""
SHOWN_BYTES = 4096
"""So much, sent and not read, shows that there is more; the smallest receive buffer takes it."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """`timeout_ms`: for the whole frame. `bytes_per_second`: on average so far. 0: without."""

    timeout_ms: int = 30_000
    bytes_per_second: int = 1024

    def due_ms(self, begun_ms: int, received_bytes: int) -> int | None:
        """When a frame that began then may have to be judged, as far as it has come; None: never."""
        due = []
        if self.bytes_per_second:
            enough_ms = received_bytes * 1000 // self.bytes_per_second + 1
            due.append(begun_ms + max(enough_ms, START_MS))
        if self.timeout_ms:
            due.append(begun_ms + self.timeout_ms)
        return min(due, default=None)


def watch(s: SessionEnd, now_ms: int) -> None:
    """A read has ended inside a frame (or head) that holds memory: from now on it is looked at."""
    if s.read_timer is None:
        due_ms = s.engine.slow_client_limits.due_ms(s.reading_ms, 0)
        if due_ms is not None:
            s.read_timer = s.engine.timers.arm(max(due_ms, now_ms + 1), s.look_at_reading)


def watch_head(s: SessionEnd, now_ms: int) -> None:
    """A head that is too long already, and not whole."""
    if s.read_timer is None:
        s.reading_ms = now_ms
        watch(s, now_ms)


def watch_waiting(s: SessionEnd, now_ms: int) -> None:
    """It waits for memory from now on, and has to show that it has something to send."""
    if s.engine.reservations.unread_bytes is not None:
        s.reading_ms = now_ms
        watch(s, now_ms)


def look(s: SessionEnd, now_ms: int) -> None:
    """The session's timer: end it if what it sends does not come, else look again when it may be late."""
    s.read_timer = None
    found = None if s.ended else _received(s)
    if found is None:
        return
    received_bytes = found[0]
    if s.line is None and _is_kept_waiting(s):
        s.reading_ms = now_ms
    limits = s.engine.slow_client_limits
    elapsed_ms = now_ms - s.reading_ms
    streams = s.announced_bytes > 0 and s.line is None
    late = 0 < limits.timeout_ms <= elapsed_ms
    if late and streams:
        late = s.engine.announced.others_wait(s)
    slow = elapsed_ms >= START_MS and received_bytes * 1000 < limits.bytes_per_second * elapsed_ms
    if late or slow:
        end_slow(s, now_ms)
        return
    due_ms = limits.due_ms(s.reading_ms, received_bytes)
    if due_ms is not None:
        if streams:
            due_ms = max(due_ms, now_ms + HASTY_MS)  # its deadline may be over, and nobody minds
        s.read_timer = s.engine.timers.arm(max(due_ms, now_ms + 1), s.look_at_reading)


def end_slow(s: SessionEnd, now_ms: int) -> None:
    """Its request does not come, or not fast enough: the session ends."""
    found = _received(s)
    if found is not None:
        detail = f"{found[0]} of {found[1]} in {now_ms - s.reading_ms} ms"
        s.end(CloseReason.REQUEST_READ_TIMEOUT, detail, now_ms)
        s.engine.attend(s)


def hurry(holders: Iterable[SessionEnd], now_ms: int) -> list[SessionEnd]:
    """End those of a pair that is over its share that are slow; those left that could be, the slowest first."""
    left: list[tuple[float, int, SessionEnd]] = []
    for s in holders:
        limits = s.engine.slow_client_limits
        found = None if s.ended else _received(s)
        elapsed_ms = now_ms - s.reading_ms
        if found is None or elapsed_ms < HASTY_MS or _is_kept_waiting(s):
            continue
        if found[0] * 1000 < limits.bytes_per_second * elapsed_ms:
            end_slow(s, now_ms)
        elif elapsed_ms >= START_MS and (limits.bytes_per_second or limits.timeout_ms):
            left.append((found[0] / elapsed_ms, s.peer.session_id, s))
    return [s for _, _, s in sorted(left)]


def _received(s: SessionEnd) -> tuple[int, str] | None:
    """How much of what is to come has come, and what that is; None: nothing is to come."""
    carry = s.client.carry
    if s.line is not None:
        unread_bytes = s.engine.reservations.unread_bytes
        if unread_bytes is None:
            return None
        shown_bytes = len(carry) + unread_bytes(s)
        whole = 4 + int.from_bytes(carry[:4], "big") if len(carry) >= 4 else SHOWN_BYTES
        if shown_bytes >= min(whole, SHOWN_BYTES):
            return None
        return shown_bytes, f"{whole} bytes of a request that waits for memory"
    if s.request_left > 0 and s.request_mode == GATHER:
        received_bytes = len(s.request_gathered or b"")
        return received_bytes, f"{received_bytes + s.request_left} bytes of a request"
    if s.request_left > 0 and s.announced_bytes:
        whole_bytes = s.announced_bytes
        return whole_bytes - s.request_left, f"{whole_bytes} bytes of a request"
    if len(carry) > HEAD_BYTES and not s.client.muted:
        return len(carry), "the head of a request that is not whole"
    return None


def _is_kept_waiting(s: SessionEnd) -> bool:
    """Whether we do not read it, for the broker's sake. (If it takes no replies, that is its own doing.)"""
    return bool(s.broker.outbox or s.client.muted & ~Mute.BACKPRESSURE)
