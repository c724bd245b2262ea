"""The families `api` and `instance`: rows are the differences between two readings of the core's counters.

Rules:
- `MeterReader` and `read_instance` run on the loop and only copy counters. `MeterDeltas` and `InstanceDeltas` run in
  the writer's thread. Counters only grow, so what one reading misses is in the next.
- Only keys that were active in a second are read. A change without activity (a lost connection) appears with
  the key's next activity.
- The meters of a disconnected key are read once more a little later and retired, some per second, so that invented
  names do not hold memory. (A request still in flight then, after its connection changed its client id, is not
  counted.)
- While readings are skipped the meters continue to count. Beyond MAX_SKIPPED_KEYS keys that came and went, the oldest
  are retired unread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from policies.api import Outcome
from proxy.core.stats.histogram import BUCKETS, growth, quantile_us
from proxy.core.stats.meters import DELAY, STAGES
from proxy.telemetry.usage_log.rows import ApiRow, InstanceRow, Sequencer, cut_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from proxy.core.engine import Engine
    from proxy.core.memory.pool import MemoryPool
    from proxy.core.stats.meters import Meter, MeterBook

Key = tuple[str, str]
MAX_SKIPPED_KEYS: Final = 10_000
_MIN_RETIRED: Final = 64
_RETIRED_SHARE: Final = 8
_NO_TIMES: Final = [0] * BUCKETS
_OUTCOMES: Final = (Outcome.NO_REPLY, Outcome.ANSWERED, Outcome.EXPIRED, Outcome.DISCONNECTED)


class MeterReading(NamedTuple):
    """A copy of a meter's counters."""

    meter: Meter
    upstream: list[int]
    outcomes: tuple[int, ...]
    waits: dict[str, list[int]]
    request_bytes: int
    response_bytes: int


class MeterReader:
    """Reads the meters of active keys and retires those of disconnected ones. Runs on the loop."""

    def __init__(self, book: MeterBook) -> None:
        self._book = book
        self._known: set[Key] = set()
        self._gone: dict[Key, None] = {}  # of these, not connected at the last reading
        self._skipped: dict[Key, None] = {}  # never read, oldest first

    def read(
        self, active: Collection[Key], connected: Collection[Key], left: Collection[Key]
    ) -> tuple[list[MeterReading], list[Meter]]:
        """Return the readings of the active keys, and the meters that this reading retires.

        `left`: the keys that are connected no more, since the last second.
        """
        if not (active or left or self._gone or self._skipped):
            return [], []
        over = [key for key in self._gone if key not in connected]
        over = over[: max(_MIN_RETIRED, len(over) // _RETIRED_SHARE)]
        self._known.update(active, self._skipped)
        self._known.difference_update(over)
        gone = dict.fromkeys((*self._gone, *self._skipped, *left))
        self._skipped.clear()
        self._gone = dict.fromkeys(
            key for key in gone if key in self._known and key not in connected
        )
        readings = [
            _read(meter) for key in dict.fromkeys((*active, *over)) for meter in self._book.of(*key)
        ]
        retired = [meter for key in over for meter in tuple(self._book.of(*key))]
        for meter in retired:
            self._book.retire(meter)
        return readings, retired

    def skip(
        self, active: Collection[Key], connected: Collection[Key], left: Collection[Key]
    ) -> int:
        """Skip this second. Return how many meters were retired unread."""
        skipped = self._skipped
        skipped.update((key, None) for key in active if key not in self._known)
        self._gone.update((key, None) for key in left if key in self._known)
        excess = len(skipped) - MAX_SKIPPED_KEYS
        if excess <= 0:
            return 0
        lost = 0
        for key in [key for key in skipped if key not in connected][:excess]:
            del skipped[key]
            for meter in tuple(self._book.of(*key)):
                self._book.retire(meter)
                lost += 1
        return lost

    def read_all(self) -> list[MeterReading]:
        """Return the readings of every meter that is not retired: for the last second."""
        return [_read(meter) for meter in self._book.each()]


def _read(meter: Meter) -> MeterReading:
    return MeterReading(
        meter,
        meter.upstream[:],
        tuple([meter.outcomes[outcome] for outcome in _OUTCOMES]),
        {stage: counts[:] for stage, counts in meter.waits.items()},
        meter.request_bytes,
        meter.response_bytes,
    )


class MeterDeltas:
    """Makes `api` rows from readings. Runs in the writer's thread."""

    def __init__(self) -> None:
        self._last: dict[
            int, MeterReading
        ] = {}  # by id of the meter, which the reading keeps alive

    def rows(
        self, sequencer: Sequencer, ts_ms: int, readings: Sequence[MeterReading]
    ) -> Iterator[ApiRow]:
        """Yield a row for each meter that has changed since its last reading."""
        for new in readings:
            row = self._row(sequencer, ts_ms, new, self._last.get(id(new.meter)))
            if row is not None:
                self._last[id(new.meter)] = new
                yield row

    def forget(self, retired: Sequence[Meter]) -> None:
        """Drop the last readings of retired meters."""
        for meter in retired:
            self._last.pop(id(meter), None)

    def _row(
        self, sequencer: Sequencer, ts_ms: int, new: MeterReading, old: MeterReading | None
    ) -> ApiRow | None:
        ends = new.outcomes
        if old is not None:
            ends = tuple(map(int.__sub__, ends, old.outcomes))
        upstream_i, upstream_n = growth(new.upstream, old.upstream if old else _NO_TIMES)
        waited: list[tuple[list[int], list[int]]] = [
            growth(new.waits[stage], (old.waits.get(stage) if old else None) or _NO_TIMES)
            if stage in new.waits
            else ([], [])
            for stage in (*STAGES, DELAY)
        ]
        if not (upstream_i or any(ends) or any(places for places, _ in waited)):
            return None
        receive, memory, throttle, purgatory, delay = waited
        replied = sum(upstream_n)
        meter = new.meter
        return ApiRow(
            instance=sequencer.instance,
            boot=sequencer.boot,
            seq=sequencer.next_seq("api"),
            ts_ms=ts_ms,
            user=cut_name(meter.user),
            client_id=cut_name(meter.client_id),
            api_key=meter.api_key,
            api=meter.name,
            requests=replied + sum(ends),
            replied=replied,
            no_reply=ends[0],
            answered=ends[1],
            expired=ends[2],
            disconnected=ends[3],
            request_bytes=new.request_bytes - (old.request_bytes if old else 0),
            response_bytes=new.response_bytes - (old.response_bytes if old else 0),
            upstream_i=upstream_i,
            upstream_n=upstream_n,
            receive_i=receive[0],
            receive_n=receive[1],
            memory_i=memory[0],
            memory_n=memory[1],
            throttle_i=throttle[0],
            throttle_n=throttle[1],
            purgatory_i=purgatory[0],
            purgatory_n=purgatory[1],
            delay_i=delay[0],
            delay_n=delay[1],
        )


class Losses(NamedTuple):
    """Rows, spans and files that were lost since the start of the process."""

    rows: int = 0
    unpublished: int = 0
    spans: int = 0
    files: int = 0


class PoolReading(NamedTuple):
    """A memory pool: its size, its use, and how long it was depleted since the start."""

    size_bytes: int
    used_bytes: int
    depleted_ms: int


class InstanceReading(NamedTuple):
    """The process at the end of a second."""

    keys: int
    sessions: int
    step_us: list[int]
    request_pool: PoolReading
    response_pool: PoolReading
    held: int
    watched: int
    timers: int
    expired_produce: int
    expired_fetch: int
    topics_unread: int


def read_instance(engine: Engine, keys: int) -> InstanceReading:
    """Return a reading of the engine; runs on the loop."""
    now_ms = engine.now_ms
    return InstanceReading(
        keys,
        len(engine.sessions),
        engine.meters.step_us[:],
        _read_pool(engine.request_pool, now_ms),
        _read_pool(engine.reply_pool, now_ms),
        engine.holds.num_delayed,
        engine.holds.watched,
        engine.timers.size,
        engine.expired.produce,
        engine.expired.fetch,
        engine.rewrites.names_unread
        + (0 if engine.topic_usage is None else engine.topic_usage.unread),
    )


def _read_pool(pool: MemoryPool, now_ms: int) -> PoolReading:
    return PoolReading(pool.size_bytes, pool.used_bytes, pool.depleted_ms(now_ms))


class InstanceDeltas:
    """Makes `instance` rows from readings. Runs in the writer's thread."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._last: InstanceReading | None = None

    def row(
        self, sequencer: Sequencer, ts_ms: int, new: InstanceReading, lost: Losses
    ) -> InstanceRow:
        """Return the row of the second that this reading ends."""
        old, self._last = self._last, new
        request_pool, response_pool = new.request_pool, new.response_pool
        places, steps = growth(new.step_us, old.step_us if old else _NO_TIMES)
        return InstanceRow(
            instance=sequencer.instance,
            boot=sequencer.boot,
            seq=sequencer.next_seq("instance"),
            ts_ms=ts_ms,
            version=self._version,
            keys=new.keys,
            sessions=new.sessions,
            steps=sum(steps),
            step_us_p50=round(quantile_us(steps, 0.5, places), 1),
            step_us_p99=round(quantile_us(steps, 0.99, places), 1),
            request_pool_size_bytes=request_pool.size_bytes,
            request_pool_used_bytes=request_pool.used_bytes,
            request_pool_depleted_ms=request_pool.depleted_ms
            - (old.request_pool.depleted_ms if old else 0),
            response_pool_size_bytes=response_pool.size_bytes,
            response_pool_used_bytes=response_pool.used_bytes,
            response_pool_depleted_ms=response_pool.depleted_ms
            - (old.response_pool.depleted_ms if old else 0),
            held=new.held,
            watched=new.watched,
            timers=new.timers,
            expired_produce_total=new.expired_produce,
            expired_fetch_total=new.expired_fetch,
            rows_dropped_total=lost.rows,
            rows_unpublished_total=lost.unpublished,
            spans_dropped_total=lost.spans,
            files_deleted_total=lost.files,
            topics_unread_total=new.topics_unread,
        )
