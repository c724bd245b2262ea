"""Counts usage by user and client id for each second, with or without quotas; usage records are made from it.

Rules:
- A Usage counts the traffic of one (user, client id) in the current second. When the second is over, its row is
  reported and the counts are reset; a row never changes afterwards.
- A Usage is on the list of its second from its first event on (`touch`), and stays there while a duration runs. Only
  those are visited when the second is over: others cost nothing, however many there are.
- Seconds are whole seconds of the engine's clock. The engine ends a second before it processes later events.
- `charged` counts the requests that a quota would count: all but SASL, the first ApiVersions of a connection, and
  requests that a policy exempts. A held request is charged when it is forwarded, not when it arrives.
- Durations (open connections, active throttles) are integrated over time, so each row has the part of its second. If
  the loop stalls for longer than MAX_STALL_MS, the time before the last minute is added to that minute's first row.
- After MAX_KEYS keys at the same time, all further keys share one, OTHER, so that the sums stay correct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WINDOW_MS = 1000
MAX_KEYS = 10_000
MAX_STALL_MS = 60_000
OTHER = "(other)"
_new_row = tuple.__new__  # the same as UsageRow(...), in half the time


class UsageRow(NamedTuple):
    """The usage of one key in one second, from `ts_ms` to `ts_ms` + WINDOW_MS.

    `request_bytes` and `response_bytes` are bytes on the wire; charged and exempt bytes are counted as in Kafka's
    quotas, without the four bytes of the size field. `blocked_ms` and `mute_ms` are connection-milliseconds.
    """

    ts_ms: int
    user: str
    client_id: str
    requests: int
    charged: int
    exempt: int
    request_bytes: int
    charged_bytes: int
    exempt_bytes: int
    response_bytes: int
    connections: int
    throttled: int
    throttle_ms: int
    throttle_ms_max: int
    blocked_ms: int
    mute_ms: int


class Duration:
    """The current `count` of a state, and the sum of the time spent in it since the last `take`, in ms."""

    __slots__ = ("_since_ms", "count", "spent_ms")

    def __init__(self, now_ms: int) -> None:
        self.count = 0
        self.spent_ms = 0  # as of the last change
        self._since_ms = now_ms

    def change(self, by: int, now_ms: int) -> None:
        """Change the count by `by` from `now_ms` on."""
        self.spent_ms += self.count * (now_ms - self._since_ms)
        self._since_ms = now_ms
        self.count += by

    def take(self, now_ms: int) -> int:
        """Return the milliseconds spent since the last call, and reset them."""
        self.change(0, now_ms)
        spent_ms, self.spent_ms = self.spent_ms, 0
        return spent_ms


class Usage:
    """The usage of one key in the current second. The fast loops add to the requests and bytes directly.

    `active`: the list of the second's usages.
    """

    __slots__ = (
        "_active",
        "blocked",
        "client_id",
        "connections",
        "exempt",
        "exempt_bytes",
        "is_active",
        "max_connections",
        "muted",
        "request_bytes",
        "requests",
        "response_bytes",
        "throttle_ms",
        "throttle_ms_max",
        "throttled",
        "uncharged",
        "uncharged_bytes",
        "user",
    )

    def __init__(self, user: str, client_id: str, now_ms: int, active: list[Usage]) -> None:
        self._active = active
        self.is_active = False  # on the list, or gone for ever
        self.user = user
        self.client_id = client_id
        self.requests = self.request_bytes = self.response_bytes = 0
        # Arrived but not charged in this second; negative if requests of an earlier second are charged.
        self.uncharged = self.uncharged_bytes = 0
        self.exempt = self.exempt_bytes = 0
        self.connections = self.max_connections = 0
        self.throttled = self.throttle_ms = self.throttle_ms_max = 0
        self.blocked = Duration(now_ms)
        self.muted = Duration(now_ms)

    def touch(self) -> None:
        """Put it on the list of the second: something is counted in it. A session does this with each read."""
        if not self.is_active:
            self.is_active = True
            self._active.append(self)

    def open(self) -> None:
        """Count a new connection of this key."""
        self.touch()
        self.connections += 1
        self.max_connections = max(self.max_connections, self.connections)

    def throttle(self, throttle_time_ms: int, requests: int) -> None:
        """Count a delay of a request or of its reply. `requests`: 1; 0 if a delay of it was counted before."""
        self.touch()
        self.throttled += requests
        self.throttle_ms += throttle_time_ms
        if throttle_time_ms > self.throttle_ms_max:  # noqa: PLR1730 - a call of max is too slow here
            self.throttle_ms_max = throttle_time_ms

    def mark_exempt(self, size_bytes: int) -> None:
        """Count a request that no quota counts."""
        self.exempt += 1
        self.exempt_bytes += size_bytes
        self.defer(size_bytes)

    def defer(self, size_bytes: int) -> None:
        """Count a request that has arrived and is charged later or never."""
        self.touch()
        self.uncharged += 1
        self.uncharged_bytes += size_bytes

    def charge(self, size_bytes: int) -> None:
        """Charge a request that was deferred."""
        self.touch()
        self.uncharged -= 1
        self.uncharged_bytes -= size_bytes

    @property
    def lasts(self) -> bool:
        """Whether a running duration alone causes the next row."""
        return bool(self.blocked.count or self.muted.count)

    def take(self, ts_ms: int, ends_ms: int) -> UsageRow | None:
        """Return the row of the second that ends, and reset the counts; None when there was no usage in it."""
        blocked, muted = self.blocked, self.muted
        # Durations are rare, and ten thousand keys are read at once.
        blocked_ms = blocked.take(ends_ms) if blocked.count or blocked.spent_ms else 0
        mute_ms = muted.take(ends_ms) if muted.count or muted.spent_ms else 0
        if not (
            self.requests
            or self.response_bytes
            or self.uncharged
            or self.throttled
            or blocked_ms
            or mute_ms
        ):
            self.max_connections = self.connections
            return None
        row = _new_row(
            UsageRow,
            (
                ts_ms,
                self.user,
                self.client_id,
                self.requests,
                self.requests - self.uncharged,
                self.exempt,
                self.request_bytes,
                self.request_bytes - 4 * self.requests - self.uncharged_bytes,
                self.exempt_bytes,
                self.response_bytes,
                self.max_connections,
                self.throttled,
                self.throttle_ms,
                self.throttle_ms_max,
                blocked_ms,
                mute_ms,
            ),
        )
        self.requests = self.request_bytes = self.response_bytes = 0
        self.uncharged = self.uncharged_bytes = self.exempt = self.exempt_bytes = 0
        self.throttled = self.throttle_ms = self.throttle_ms_max = 0
        self.max_connections = self.connections
        return row


class UsageBook:
    """Holds the keys connected in the current second. `on_second` gets the rows of each second that is over.

    `gone`: the keys that had no connection any more at the end of the second before.
    """

    __slots__ = ("_active", "_left", "_on_second", "ends_ms", "gone", "keys")

    def __init__(self, now_ms: int, on_second: Callable[[int, Sequence[UsageRow]], None]) -> None:
        self.keys: dict[tuple[str, str], Usage] = {}
        self.gone: list[tuple[str, str]] = []
        self.ends_ms = now_ms - now_ms % WINDOW_MS + WINDOW_MS
        self._active: list[Usage] = []  # always the same list
        self._left: list[Usage] = []  # had no connection when one left
        self._on_second = on_second

    def join(self, user: str, client_id: str, now_ms: int) -> Usage:
        """Count a connection for this key from now on. Return the key's usage, or that of OTHER."""
        key = (user, client_id)
        usage = self.keys.get(key)
        if usage is None:
            if len(self.keys) >= MAX_KEYS:
                key = (OTHER, OTHER)
                usage = self.keys.get(key)
            if usage is None:
                usage = self.keys[key] = Usage(*key, now_ms, self._active)
        usage.open()
        return usage

    def leave(self, usage: Usage) -> None:
        """Count off a connection. The row of its key is still reported at the end of the second."""
        usage.touch()
        usage.connections -= 1
        if not usage.connections:
            self._left.append(usage)

    def roll(self, now_ms: int) -> None:
        """End the second. If several are over (the loop stalled), the later ones have only durations."""
        self._end_second()
        self._drop_left()
        begun_ms = now_ms - now_ms % WINDOW_MS
        if self.ends_ms <= begun_ms and self._active:
            self.ends_ms = max(self.ends_ms, begun_ms - MAX_STALL_MS + WINDOW_MS)
            while self.ends_ms <= begun_ms:
                self._end_second()
        self.ends_ms = begun_ms + WINDOW_MS

    def _drop_left(self) -> None:
        """Drop the keys without a connection: they have no row any more."""
        left, self._left = self._left, []
        self.gone = []
        for usage in left:
            key = (usage.user, usage.client_id)
            if not usage.connections and self.keys.get(key) is usage:
                del self.keys[key]
                self.gone.append(key)
                if usage.is_active:  # a duration runs still
                    self._active.remove(usage)
                usage.is_active = True

    def _end_second(self) -> None:
        ends_ms, active = self.ends_ms, self._active
        ts_ms = ends_ms - WINDOW_MS
        rows = [row for usage in active if (row := usage.take(ts_ms, ends_ms)) is not None]
        for usage in active:
            usage.is_active = usage.lasts
        active[:] = [usage for usage in active if usage.is_active]
        self.ends_ms = ends_ms + WINDOW_MS
        self._on_second(ts_ms, rows)
