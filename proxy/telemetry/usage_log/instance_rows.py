"""The family `instance`: the process itself, once a second while anybody is connected."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from proxy.core.histogram import quantile_us
from proxy.telemetry.usage_log.rows import InstanceRow, Stamp

if TYPE_CHECKING:
    from proxy.core.engine import Engine
    from proxy.core.memory import MemoryPool


class Losses(NamedTuple):
    """What was not written, since the start."""

    rows: int = 0
    unpublished: int = 0
    spans: int = 0
    files: int = 0


class InstanceReading(NamedTuple):
    """How the process stood at the end of a second."""

    keys: int
    sessions: int
    step_us: list[int]
    request_pool: tuple[
        int, int, int
    ]  # size, used, and for how long it was depleted since the start
    response_pool: tuple[int, int, int]
    held: int
    watched: int
    timers: int
    expired_produce: int
    expired_fetch: int
    topics_unread: int = 0


def read(engine: Engine, keys: int) -> InstanceReading:
    """Look at the engine; on its own thread."""
    now_ms, watched = engine.now_ms, engine.holds.watched
    return InstanceReading(
        keys,
        len(engine.sessions),
        engine.meters.step_us[:],
        _pool(engine.request_pool, now_ms),
        _pool(engine.reply_pool, now_ms),
        _held(engine) if watched else 0,
        watched,
        engine.timers.size,
        engine.expired.produce,
        engine.expired.fetch,
        engine.names_unread + (0 if engine.topic_book is None else engine.topic_book.unread),
    )


class InstanceDiffs:
    """Readings in, rows out. Of the writer's thread."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._last: InstanceReading | None = None

    def row(self, stamp: Stamp, ts_ms: int, new: InstanceReading, lost: Losses) -> InstanceRow:
        """The row of the second that this reading ends."""
        old, self._last = self._last, new
        steps = new.step_us
        if old is not None:
            steps = list(map(int.__sub__, steps, old.step_us))
        depleted = [
            new.request_pool[2] - (old.request_pool[2] if old else 0),
            new.response_pool[2] - (old.response_pool[2] if old else 0),
        ]
        return InstanceRow(
            instance=stamp.instance,
            boot=stamp.boot,
            seq=stamp.next_seq("instance"),
            ts_ms=ts_ms,
            version=self._version,
            keys=new.keys,
            sessions=new.sessions,
            steps=sum(steps),
            step_us_p50=round(quantile_us(steps, 0.5), 1),
            step_us_p99=round(quantile_us(steps, 0.99), 1),
            request_pool_size_bytes=new.request_pool[0],
            request_pool_used_bytes=new.request_pool[1],
            request_pool_depleted_ms=depleted[0],
            response_pool_size_bytes=new.response_pool[0],
            response_pool_used_bytes=new.response_pool[1],
            response_pool_depleted_ms=depleted[1],
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


def _held(engine: Engine) -> int:
    return sum(session.held is not None for session in engine.sessions)


def _pool(pool: MemoryPool, now_ms: int) -> tuple[int, int, int]:
    return pool.size_bytes, pool.used_bytes, pool.depleted_ms(now_ms)
