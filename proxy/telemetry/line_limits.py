"""Limits for the lines of each event, so that no client, broker or caller can flood the log.

Rules:
- Every event is in LIMITS, with its possible causes. Any other has the limit UNKNOWN; a test finds it.
- Lines beyond the limit are counted; the next line of that event has their number in `suppressed`. If none comes until
  the period has ended, `take_counts` has it, and `LastCounts` has it written.
- An event with `by` has a limit for each value of these fields; only fields whose values our own code or the
  configuration chooses may be named.
- At level debug each event has DEBUG_LINES a second.
- Texts are cut: a field at MAX_FIELD_CHARS, a traceback at MAX_TRACEBACK_CHARS, a list at MAX_LIST_ITEMS.
- Nothing wakes while no line is left out. After the first one, `LastCounts.run` asks once a second, until all is told.
  Any thread and task may leave out a line, so it is Trio that wakes, and no timer of the event loop.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


MAX_FIELD_CHARS: Final = 1_000
MAX_TRACEBACK_CHARS: Final = 16_000
MAX_LIST_ITEMS: Final = 50
DEBUG_LINES: Final = 100
_S: Final = 1_000


class EventLimit(NamedTuple):
    """At most `lines` in each `period_ms`, for each value of the fields `by`. `cause` is for the reader."""

    lines: int
    period_ms: int
    cause: str
    by: tuple[str, ...] = ()


UNKNOWN: Final = EventLimit(1, _S, "unknown")
DEBUG: Final = EventLimit(DEBUG_LINES, _S, "any event at this level")
LIMITS: Final[Mapping[str, EventLimit]] = {
    # clients
    "session_opened": EventLimit(5, _S, "a client"),
    "handshake_failed": EventLimit(5, _S, "a client"),
    "session_closed": EventLimit(5, _S, "a client or a broker", by=("reason",)),
    "requests_expired": EventLimit(2, _S, "a broker that is silent"),
    "removed_version": EventLimit(20, 60 * _S, "a client"),
    "pool_depleted": EventLimit(2, _S, "clients and brokers", by=("pool",)),
    "pool_recovered": EventLimit(2, _S, "clients and brokers", by=("pool",)),
    "policy_refused": EventLimit(5, _S, "a client", by=("policy",)),
    "policy_observed": EventLimit(5, _S, "a client", by=("policy",)),
    "policy_error": EventLimit(1, _S, "a client, where a policy has a bug", by=("policy", "hook")),
    "policy_message": EventLimit(10, _S, "a client, where a policy logs", by=("policy",)),
    "policy_slow": EventLimit(1, _S, "a client, where a policy is slow", by=("policy", "hook")),
    "slow_step": EventLimit(1, _S, "clients, or a machine without CPU time"),
    "internal_error": EventLimit(1, _S, "a client or a broker, where Sluice has a bug"),
    "accept_delayed": EventLimit(1, 60 * _S, "clients", by=("limit",)),
    "file_descriptors_exhausted": EventLimit(1, 60 * _S, "clients, or other processes"),
    # brokers
    "bootstrap_closed": EventLimit(1, 10 * _S, "a broker", by=("likely",)),
    "node_learned": EventLimit(100, 60 * _S, "a broker"),
    "unmapped_node": EventLimit(5, _S, "a broker"),
    "usage_log_not_published": EventLimit(1, _S, "a broker"),
    "usage_log_published_again": EventLimit(1, _S, "a broker"),
    # callers of the admin server
    "admin_change": EventLimit(100, _S, "a caller with rights; the server takes fewer changes"),
    "admin_refused": EventLimit(5, _S, "a caller", by=("way",)),
    "admin_bad_request": EventLimit(1, 10 * _S, "a caller"),
    "admin_error": EventLimit(1, _S, "a caller, where Sluice has a bug"),
    # operators
    "users_loaded": EventLimit(5, _S, "an operator"),
    "users_refused": EventLimit(1, 60 * _S, "an operator"),
    "token_keys_loaded": EventLimit(5, 60 * _S, "an identity provider"),
    "token_keys_refused": EventLimit(1, 60 * _S, "an identity provider"),
    "unsigned_tokens_accepted": EventLimit(5, _S, "the start"),
    "config_reloaded": EventLimit(5, _S, "an operator"),
    "config_reload_failed": EventLimit(5, _S, "an operator"),
    "certificates_loaded": EventLimit(5, _S, "an operator"),
    "certificates_refused": EventLimit(5, _S, "an operator"),
    "draining": EventLimit(5, _S, "an operator"),
    "stopped": EventLimit(5, _S, "an operator"),
    "memory_budget": EventLimit(5, _S, "the start"),
    "ready": EventLimit(5, _S, "the start"),
    "admin_socket_unavailable": EventLimit(5, _S, "the start"),
    "start_failed": EventLimit(5, _S, "the start"),
    # disks, collectors, libraries
    "usage_log_recovered": EventLimit(5, _S, "the start"),
    "usage_log_failed": EventLimit(1, _S, "a bug"),
    "usage_log_not_written": EventLimit(1, _S, "the disk"),
    "usage_log_written_again": EventLimit(1, _S, "the disk"),
    "usage_log_incomplete": EventLimit(1, _S, "the disk"),
    "audit_log_incomplete": EventLimit(1, _S, "the disk"),
    "traces_not_exported": EventLimit(1, _S, "the disk or a collector"),
    "traces_exported_again": EventLimit(1, _S, "the disk or a collector"),
    "log_lines_suppressed": EventLimit(5, _S, "the cause of these lines"),
    "library_message": EventLimit(1, _S, "a library"),
}

MAX_WINDOWS: Final = 1000
"""Events and values of their `by` that are remembered, unless more have lines within one period."""


class _LimitWindow:
    """The lines of one event, or of one value of its `by`, in the period that ends at `until_ms`."""

    __slots__ = ("lines", "max_lines", "period_ms", "suppressed", "until_ms")

    def __init__(self, limit: EventLimit) -> None:
        self.max_lines = limit.lines
        self.period_ms = limit.period_ms
        self.until_ms = 0
        self.lines = 0
        self.suppressed = 0


class LineLimits:
    """Applies the limits. `suppressed` counts dropped lines since the start, by event."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.suppressed: Counter[str] = Counter()
        self.on_suppressed: Callable[[], None] | None = None
        """Called with the first line that is suppressed after a line, or after `take_counts`; in any thread."""
        self._now_ms = now_ms
        self._windows: dict[object, _LimitWindow] = {}

    def is_full(self, event: str, fields: Mapping[str, object]) -> bool:
        """Return whether this line is beyond its limit; if so it is counted as suppressed."""
        window = self._window(event, fields)
        if window.lines < window.max_lines:
            return False
        if not window.suppressed and self.on_suppressed is not None:
            self.on_suppressed()
        window.suppressed += 1
        self.suppressed[event] += 1
        return True

    def pass_one(self, event: str, fields: Mapping[str, object]) -> int:
        """Count a line that is within its limit; return how many were suppressed since the last one."""
        window = self._window(event, fields)
        window.lines += 1
        suppressed, window.suppressed = window.suppressed, 0
        return suppressed

    def take_counts(self, *, unfinished: bool = False) -> tuple[dict[str, int], bool]:
        """Return how many lines were suppressed since the last line of their event, and forget it.

        Of periods that have ended, or of all if `unfinished`; the second is whether others are left. A name is the
        event, with the values of its `by`.
        """
        counts: Counter[str] = Counter()
        is_more = False
        now_ms = self._now_ms()
        for key, window in list(self._windows.items()):
            if not window.suppressed:
                continue
            if now_ms >= window.until_ms or unfinished:
                suppressed, window.suppressed = window.suppressed, 0
                counts["/".join(map(str, key)) if isinstance(key, tuple) else str(key)] += (
                    suppressed
                )
            else:
                is_more = True
        return dict(counts), is_more

    def _window(self, event: str, fields: Mapping[str, object]) -> _LimitWindow:
        limit = LIMITS.get(event, UNKNOWN)
        key: object = event
        if fields.get("level") == "debug":
            limit, key = DEBUG, (event,)
        elif limit.by:
            key = (event, *map(fields.get, limit.by))
        window = self._windows.get(key)
        now_ms = self._now_ms()
        if window is None:
            if len(self._windows) >= MAX_WINDOWS:
                self._forget_old(now_ms)
            window = self._windows[key] = _LimitWindow(limit)
        if now_ms >= window.until_ms:
            window.until_ms = now_ms - now_ms % window.period_ms + window.period_ms
            window.lines = 0
        return window

    def _forget_old(self, now_ms: int) -> None:
        """Forget windows that have nothing to tell: of policies that a reload has removed, for example."""
        self._windows = {
            key: window
            for key, window in self._windows.items()
            if window.suppressed or now_ms < window.until_ms
        }


def cut(value: object, max_chars: int = MAX_FIELD_CHARS) -> object:
    """Return the value, with texts and lists cut to their limits."""
    if isinstance(value, str):
        if len(value) <= max_chars:
            return value
        half = max_chars // 2
        return f"{value[:half]} [{len(value) - 2 * half} characters left out] {value[-half:]}"
    if isinstance(value, (list, tuple)):
        shown = [cut(each) for each in value[:MAX_LIST_ITEMS]]
        more = len(value) - len(shown)
        return [*shown, f"and {more} more"] if more else shown
    return value


EVERY_S: Final = 1.0


class LastCounts:
    """Calls functions that write counts, each of which returns whether it still keeps some."""

    def __init__(self, tell: Callable[[], bool]) -> None:
        self._tell = [tell]
        self._wake: Callable[[], None] | None = None
        self._is_noted = False

    def add(self, tell: Callable[[], bool]) -> None:
        """Call this function too."""
        self._tell.append(tell)

    def note(self) -> None:
        """Wake `run`: a line was left out. Any thread may call this."""
        self._is_noted = True
        if self._wake is not None:
            self._wake()

    async def run(self) -> None:
        """Tell the counts until cancelled."""
        token = trio.lowlevel.current_trio_token()
        while True:
            noted = trio.Event()
            self._wake = lambda event=noted: token.run_sync_soon(event.set, idempotent=True)
            if not self._is_noted:
                await noted.wait()
            self._wake, self._is_noted = None, False
            await trio.sleep(EVERY_S)
            for tell in self._tell:
                self._is_noted |= tell()
