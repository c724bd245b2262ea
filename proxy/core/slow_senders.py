"""A frame that holds memory before it is here must come (slowloris): a deadline, and a least rate.

Rules:
- Time counts from when its memory was granted; before that it is not read, and that is not its fault. Nor
  is it when its broker does not take what it has sent, or answers nothing: then the time begins anew.
- A head that does not end holds what it has sent, and is judged alike once that is more than HEAD_BYTES.
- One timer a session at most, set when a read ends inside such a frame: nothing per ordinary request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.core.channel import Mute
from proxy.core.errors import CloseReason
from proxy.core.state import GATHER

if TYPE_CHECKING:
    from proxy.core.ending import SessionEnd

START_MS = 5_000
"""Nobody is called slow earlier."""
HEAD_BYTES = 4096
"""No ordinary head is as long: a client id and a transactional id."""


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
        due_ms = s.engine.read_limits.due_ms(s.reading_ms, 0)
        if due_ms is not None:
            s.read_timer = s.engine.timers.arm(max(due_ms, now_ms + 1), s.look_at_reading)


def watch_head(s: SessionEnd, now_ms: int) -> None:
    """A head that is too long already, and not whole."""
    if s.read_timer is None:
        s.reading_ms = now_ms
        watch(s, now_ms)


def look(s: SessionEnd, now_ms: int) -> None:
    """The session's timer: end it if what it sends does not come, else look again when it may be late."""
    s.read_timer = None
    gathers = s.request_left > 0 and s.request_mode == GATHER
    if s.ended or not (gathers or _has_long_head(s)):
        return
    if _is_kept_waiting(s):
        s.reading_ms = now_ms
    limits = s.engine.read_limits
    received_bytes = len(s.request_gathered or b"") if gathers else len(s.client.carry)
    elapsed_ms = now_ms - s.reading_ms
    late = 0 < limits.timeout_ms <= elapsed_ms
    slow = elapsed_ms >= START_MS and received_bytes * 1000 < limits.bytes_per_second * elapsed_ms
    if late or slow:
        whole = f"{received_bytes + s.request_left} bytes of a request"
        of = whole if gathers else "the head of a request that is not whole"
        detail = f"{received_bytes} of {of} in {elapsed_ms} ms"
        s.end(CloseReason.REQUEST_READ_TIMEOUT, detail, now_ms)
        s.engine.attend(s)
        return
    due_ms = limits.due_ms(s.reading_ms, received_bytes)
    if due_ms is not None:
        s.read_timer = s.engine.timers.arm(max(due_ms, now_ms + 1), s.look_at_reading)


def _has_long_head(s: SessionEnd) -> bool:
    return len(s.client.carry) > HEAD_BYTES and not s.client.muted


def _is_kept_waiting(s: SessionEnd) -> bool:
    """Whether we do not read it, for the broker's sake. (If it takes no replies, that is its own doing.)"""
    return bool(s.broker.outbox or s.client.muted & ~Mute.BACKPRESSURE)
