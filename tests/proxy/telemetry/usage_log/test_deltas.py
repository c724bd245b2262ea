"""The families `api` and `instance`: differences between two readings of counters."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from policies.api import Hold, Outcome
from proxy.core.stats.histogram import BUCKETS, bucket_of
from proxy.core.stats.meters import DELAY, STAGES, Meter, MeterBook
from proxy.core.stats.topic_usage import TopicUsage
from proxy.telemetry.usage_log import deltas as module
from proxy.telemetry.usage_log.deltas import (
    InstanceDeltas,
    Losses,
    MeterDeltas,
    MeterReader,
    read_instance,
)
from proxy.telemetry.usage_log.rows import ApiRow, Sequencer
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f

ALICE, BOB = ("alice", "a"), ("bob", "b")


class Ledger:
    """A meter book, its reader, and the rows made from the readings."""

    def __init__(self) -> None:
        self.book = MeterBook(by_key=True)
        self.reader = MeterReader(self.book)
        self.deltas = MeterDeltas()
        self.sequencer = Sequencer("a", "b")
        self.rows: list[ApiRow] = []
        self._present: set[tuple[str, str]] = set()

    def meter(self, key: tuple[str, str], api_key: int = 12) -> Meter:
        return self.book.find(api_key, f"Api{api_key}", *key)

    def second(self, *active: tuple[str, str], connected=(ALICE, BOB)) -> list[ApiRow]:
        """End a second; return its rows."""
        left = self.left(active, connected)
        readings, retired = self.reader.read(active, connected, left)
        rows = list(self.deltas.rows(self.sequencer, 1000, readings))
        self.deltas.forget(retired)
        self.rows += rows
        return rows

    def skip(self, active, connected) -> int:
        """End a second that is not read; return how many meters were lost."""
        return self.reader.skip(active, connected, self.left(active, connected))

    def left(self, active, connected) -> set[tuple[str, str]]:
        """Return the keys that were connected or active in the last second, and are not connected now."""
        left = self._present - set(connected)
        self._present = {*active, *connected}
        return left


def test_a_row_is_the_difference_of_two_readings() -> None:
    """Counts, bytes and histograms cover the time since the last row, not since the start."""
    ledger = Ledger()
    meter = ledger.meter(ALICE)
    meter.upstream[bucket_of(100)] += 2
    meter.request_bytes += 70
    ledger.second(ALICE)
    meter.upstream[bucket_of(100)] += 1
    meter.upstream[bucket_of(9000)] += 3
    meter.outcomes[Outcome.EXPIRED] += 1
    meter.count_wait("throttle", 250_000)
    meter.count_wait(DELAY, 900_000)
    meter.request_bytes += 35
    meter.response_bytes += 11

    (row,) = ledger.second(ALICE)

    assert (row.user, row.client_id, row.api_key, row.api) == ("alice", "a", 12, "Api12")
    assert (row.requests, row.replied, row.expired, row.no_reply) == (5, 4, 1, 0)
    assert (row.request_bytes, row.response_bytes) == (35, 11)
    assert (row.upstream_i, row.upstream_n) == ([bucket_of(100), bucket_of(9000)], [1, 3])
    assert (row.throttle_i, row.throttle_n) == ([bucket_of(250_000)], [1])
    assert (row.delay_i, row.delay_n) == ([bucket_of(900_000)], [1])
    assert row.memory_i == row.purgatory_n == []
    assert row.seq == 2


def test_an_inactive_key_has_no_row() -> None:
    """Keys without activity, and APIs that an active key did not use, have no row."""
    ledger = Ledger()
    ledger.meter(ALICE).upstream[3] += 1
    ledger.meter(ALICE, 3).upstream[3] += 1
    ledger.meter(BOB).upstream[3] += 1

    assert {row.user for row in ledger.second(ALICE)} == {"alice"}
    ledger.meter(ALICE, 3).upstream[3] += 1
    assert [row.api_key for row in ledger.second(ALICE)] == [3]


def test_a_disconnected_key_is_read_once_more_and_retired() -> None:
    """A last row has what happened after the last active second; the meters are retired, and their sums stay."""
    ledger = Ledger()
    meter = ledger.meter(ALICE)
    meter.upstream[3] += 1
    ledger.second(ALICE)
    meter.outcomes[Outcome.DISCONNECTED] += 2
    ledger.second(connected=())
    ledger.second(connected=())

    assert sum(row.disconnected for row in ledger.rows) == 2
    assert ledger.book.of(*ALICE) == ()
    assert [each.outcome(Outcome.DISCONNECTED) for each in ledger.book.by_api()] == [2]


def test_a_key_that_reconnects_is_not_retired() -> None:
    """If another connection of the same key comes in time, its meters stay."""
    ledger = Ledger()
    meter = ledger.meter(ALICE)
    meter.upstream[3] += 1
    ledger.second(ALICE, connected=())
    ledger.second()
    meter.upstream[3] += 1

    assert [row.requests for row in ledger.second(ALICE)] == [1]
    assert list(ledger.book.of(*ALICE)) == [meter]


def test_a_flood_of_names_is_retired() -> None:
    """Hundreds of keys that came once are all counted, and later none of their meters is left."""
    ledger = Ledger()
    for second in range(5):
        flood = [("x", f"{second}-{number}") for number in range(100)]
        for key in flood:
            ledger.meter(key).upstream[3] += 1
        ledger.second(*flood, connected=())
    for _ in range(100):
        ledger.second(connected=())

    assert len(ledger.book.each()) == 0
    assert sum(row.requests for row in ledger.rows) == 500
    assert sum(each.replied for each in ledger.book.by_api()) == 500


def test_keys_of_skipped_seconds_are_read_later() -> None:
    """After skipped seconds the rows come late, and the meters are retired as usual."""
    ledger = Ledger()
    for second in range(5):
        key = ("x", f"{second}")
        ledger.meter(key).upstream[3] += 1
        assert ledger.skip([key], ()) == 0
    for _ in range(3):
        ledger.second(connected=())

    assert sorted(row.client_id for row in ledger.rows) == ["0", "1", "2", "3", "4"]
    assert ledger.book.each() == ()


def test_the_keys_of_skipped_seconds_are_bounded(monkeypatch) -> None:
    """Beyond the bound the oldest disconnected keys are retired unread and counted as lost; connected keys stay."""
    monkeypatch.setattr(module, "MAX_SKIPPED_KEYS", 100)
    ledger = Ledger()
    ledger.meter(BOB).upstream[3] += 1
    ledger.second(BOB)
    lost = 0
    for second in range(50):
        flood = [ALICE, *[("x", f"{second}-{number}") for number in range(10)]]
        for key in (BOB, *flood):
            ledger.meter(key).upstream[3] += 1
        lost += ledger.skip([BOB, *flood], (ALICE, BOB))

    assert lost == 500 + 1 - 100
    assert len(ledger.book.each()) == 100 + 1  # and Bob, who was known before
    assert sum(each.replied for each in ledger.book.by_api()) == 50 * 12 + 1
    ledger.second()
    for _ in range(3):
        ledger.second(ALICE, BOB)
    assert set(ledger.book.each()) == {ledger.meter(ALICE), ledger.meter(BOB)}
    assert sum(row.requests for row in ledger.rows) == 50 * 12 + 1 - lost


moves = st.tuples(
    st.sampled_from([ALICE, BOB]),
    st.sampled_from([0, 1, 12]),
    st.sampled_from(["upstream", *STAGES])
    | st.sampled_from(Outcome).filter(lambda o: o is not Outcome.REPLIED),
    st.integers(0, 2**31),
)


@given(st.lists(st.tuples(st.lists(moves, max_size=6), st.booleans()), max_size=6))
def test_the_sums_of_the_rows_are_the_meters(seconds) -> None:
    """The sums of all rows equal the meters, for any changes in any second, read or skipped."""
    ledger = Ledger()
    for moved, lost in seconds:
        for key, api_key, what, us in moved:
            meter = ledger.meter(key, api_key)
            if what == "upstream":
                meter.upstream[bucket_of(us)] += 1
            elif isinstance(what, Outcome):
                meter.outcomes[what] += 1
            else:
                meter.count_wait(what, us)
        if not lost:
            ledger.second(ALICE, BOB)
    ledger.rows += ledger.deltas.rows(ledger.sequencer, 9000, ledger.reader.read_all())

    for meter in ledger.book.each():
        rows = [
            row
            for row in ledger.rows
            if (row.user, row.client_id, row.api_key)
            == (meter.user, meter.client_id, meter.api_key)
        ]
        assert sum(row.replied for row in rows) == meter.replied
        assert sum(row.expired for row in rows) == meter.outcomes[Outcome.EXPIRED]
        for stage in ("upstream", *STAGES):
            counts = [0] * BUCKETS
            for row in rows:
                for place, count in zip(
                    getattr(row, f"{stage}_i"), getattr(row, f"{stage}_n"), strict=True
                ):
                    counts[place] += count
            expected = (
                meter.upstream if stage == "upstream" else meter.waits.get(stage, [0] * BUCKETS)
            )
            assert counts == expected


def test_an_instance_row_has_gauges_and_losses() -> None:
    """An instance row has the current sessions, held requests, timers and pools, and the losses since the start."""
    book = TopicUsage()
    book.unread = 5
    wire = Wire(make_engine([Recorder(lambda _: Hold(1000, "key"))], topic_usage=book))
    Wire(wire.engine)
    wire.client(f.heartbeat(1))
    wire.engine.reply_pool.force_allocate(77)

    deltas = InstanceDeltas("1.2.3")
    reading = read_instance(wire.engine, 1)
    row = msgspec.to_builtins(deltas.row(Sequencer("a", "b"), 1000, reading, Losses(1, 2, 3, 4)))

    assert (row["sessions"], row["keys"], row["held"], row["watched"]) == (2, 1, 1, 1)
    assert row["timers"] == wire.engine.timers.size >= 1
    assert row["response_pool_used_bytes"] == 77
    assert row["request_pool_used_bytes"] == wire.engine.request_pool.used_bytes
    assert (row["rows_dropped_total"], row["rows_unpublished_total"]) == (1, 2)
    assert (row["spans_dropped_total"], row["files_deleted_total"]) == (3, 4)
    assert (row["topics_unread_total"], row["version"]) == (5, "1.2.3")


def test_instance_counters_are_differences() -> None:
    """Steps of the loop and the time a pool was depleted cover the time since the last row."""
    engine = make_engine()
    deltas, sequencer = InstanceDeltas(""), Sequencer("a", "b")
    engine.meters.step_us[bucket_of(40)] += 10
    deltas.row(sequencer, 0, read_instance(engine, 0), Losses())
    engine.meters.step_us[bucket_of(40)] += 98
    engine.meters.step_us[bucket_of(3000)] += 2
    engine.request_pool.refuse()
    engine.advance(250)

    row = deltas.row(sequencer, 1000, read_instance(engine, 0), Losses())

    assert row.steps == 100
    assert 40 <= row.step_us_p50 < 45
    assert 3000 <= row.step_us_p99 < 3300
    assert row.request_pool_depleted_ms == 250
    assert row.response_pool_depleted_ms == 0
