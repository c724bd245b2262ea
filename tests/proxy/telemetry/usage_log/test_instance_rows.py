"""The family `instance`: the process itself, once a second."""

from __future__ import annotations

import msgspec

from policies.api import Hold
from proxy.core.histogram import bucket_of
from proxy.core.topic_book import TopicBook
from proxy.telemetry.usage_log import instance_rows
from proxy.telemetry.usage_log.instance_rows import InstanceDiffs, Losses
from proxy.telemetry.usage_log.rows import Stamp
from tests.support import frames as f
from tests.support.policies import Recorder
from tests.support.sessions import Wire, make_engine


def test_what_is_held_and_counted_now_is_said_as_it_is() -> None:
    """Sessions, held requests, timers and pools as they stand; losses since the start."""
    wire = Wire(make_engine([Recorder(lambda _: Hold(1000, "key"))]))
    Wire(wire.engine)
    wire.client(f.heartbeat(1))
    wire.engine.reply_pool.force_allocate(77)

    diffs = InstanceDiffs("1.2.3")
    reading = instance_rows.read(wire.engine, 1)
    row = msgspec.to_builtins(diffs.row(Stamp("a", "b"), 1000, reading, Losses(1, 2, 3, 4)))

    assert (row["sessions"], row["keys"], row["held"], row["watched"]) == (2, 1, 1, 1)
    assert row["timers"] == wire.engine.timers.size >= 1
    assert row["response_pool_used_bytes"] == 77
    assert row["request_pool_used_bytes"] == wire.engine.request_pool.used_bytes
    assert (row["rows_dropped_total"], row["rows_unpublished_total"]) == (1, 2)
    assert (row["spans_dropped_total"], row["files_deleted_total"]) == (3, 4)
    assert row["version"] == "1.2.3"


def test_bodies_that_could_not_be_read_are_told() -> None:
    """The topic family's own loss, counted by the core."""
    engine = make_engine(topic_book=TopicBook())
    assert engine.topic_book is not None
    engine.topic_book.unread = 5

    row = InstanceDiffs("").row(Stamp("a", "b"), 0, instance_rows.read(engine, 0), Losses())

    assert row.topics_unread_total == 5


def test_what_grows_is_told_by_the_second() -> None:
    """Steps of the loop and time without memory are those since the last row."""
    engine = make_engine()
    diffs, stamp = InstanceDiffs(""), Stamp("a", "b")
    engine.meters.step_us[bucket_of(40)] += 10
    diffs.row(stamp, 0, instance_rows.read(engine, 0), Losses())
    engine.meters.step_us[bucket_of(40)] += 98
    engine.meters.step_us[bucket_of(3000)] += 2
    engine.request_pool.refuse()
    engine.advance(250)

    row = diffs.row(stamp, 1000, instance_rows.read(engine, 0), Losses())

    assert row.steps == 100
    assert 40 <= row.step_us_p50 < 45
    assert 3000 <= row.step_us_p99 < 3300
    assert row.request_pool_depleted_ms == 250
    assert row.response_pool_depleted_ms == 0
