"""A ledger of everything that the core reports of its requests; and a session whose clock counts microseconds.

`Ledger` keeps the rows of every second, every trace, every end of a mute. `TimedWire` steps the engine as the driver
does: events on the way happen at their own time. It integrates by itself how long its client was muted.
"""

from collections import Counter
from collections.abc import Sequence

from policies.api import Policy
from proxy.core.engine import Engine
from proxy.core.session import mutes
from proxy.core.session.channel import Channel, Mute
from proxy.core.session.mutes import mute_reasons
from proxy.core.stats.request_trace import RequestTrace
from proxy.core.stats.usage import UsageRow
from tests.support.core.sessions import Watcher, Wire, make_engine


class Ledger(Watcher):
    """Remembers what the core reported, rows and traces included."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[int] = []
        self.rows: list[UsageRow] = []
        self.traces: list[RequestTrace] = []
        self.unmuted: list[tuple[RequestTrace, int]] = []

    def on_trace(self, trace: RequestTrace) -> None:
        self.traces.append(trace)

    def on_unmuted(self, trace: RequestTrace, now_us: int) -> None:
        self.unmuted.append((trace, now_us))

    def on_second(self, ts_ms: int, rows: Sequence[UsageRow]) -> None:
        self.seconds.append(ts_ms)
        self.rows.extend(rows)

    def sum(self, column: str) -> int:
        """Return the sum of a column over all rows."""
        return sum(getattr(row, column) for row in self.rows)

    def by_second(self, column: str) -> dict[int, int]:
        """Return the column's values above 0 by the number of their second."""
        sums: Counter[int] = Counter()
        for row in self.rows:
            sums[row.ts_ms // 1000] += getattr(row, column)
        return {second: total for second, total in sums.items() if total}


def make_counting_engine(policies: Sequence[Policy] = (), **options: int) -> tuple[Engine, Ledger]:
    """As `make_engine`, with a Ledger as its observer."""
    ledger = Ledger()
    return make_engine(policies, watcher=ledger, **options), ledger


class TimedWire(Wire):
    """See the module."""

    def __init__(self, engine: Engine) -> None:
        self.quiet_ms: Counter[int] = Counter()
        """How long the client was muted by a throttle, or held, by second."""
        super().__init__(engine)
        self.looks = True
        """As the event loop does: a deferred mute begins before early bytes are read."""
        self.early = 0
        """How often bytes came during a deferred mute."""

    def pass_us(self, elapsed_us: int) -> None:
        """Let time pass; no event on the way is late."""
        engine = self.engine
        until_us = engine.now_us + elapsed_us
        while True:
            due_ms = engine.next_ms()
            at_us = until_us if due_ms is None else min(until_us, due_ms * 1000)
            at_us = max(at_us, engine.now_us)
            self.quiet_ms[engine.now_ms // 1000] += self._quiet() * (at_us // 1000 - engine.now_ms)
            engine.advance(at_us // 1000, at_us)
            self.give_turns()
            self.settle()
            self.proceed()
            if at_us >= until_us:
                return

    def end_seconds(self) -> None:
        """End the current second, and with it all its counts."""
        self.engine.advance((self.engine.now_ms // 1000 + 1) * 1000)

    def _read(self, channel: Channel, take, data: bytes, name: str) -> None:
        session = self.session
        throttle = session.throttle
        if data and channel is session.client and throttle is not None and throttle.is_deferred:
            self.early += throttle.lasts(self.now_ms)
            if self.looks:
                mutes.begin_deferred(session, self.now_ms)
            if session.client.muted:
                self._unread.appendleft(data)
                return
        super()._read(channel, take, data, name)

    def _quiet(self) -> int:
        held = self.session.held
        muted = bool(mute_reasons(self.session) & Mute.THROTTLED)
        return muted + (held is not None and held.throttled is not None)
