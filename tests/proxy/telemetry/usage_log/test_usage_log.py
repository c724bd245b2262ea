"""The loop's part of the usage log."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.api import FORWARD, EffectiveQuota, Throttle
from proxy.core.stats.capture import Capture
from proxy.core.stats.topic_usage import TopicUsage
from proxy.telemetry.usage_log import writer_thread
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f
from tests.support.telemetry.usage_log import START_MS, Recording

LIMIT = EffectiveQuota("entity", "user=ANONYMOUS", 50.0, "r1")


def test_a_second_is_one_row_of_each_key(tmp_path: Path) -> None:
    """Each active client has one row per second, with the request rate in force."""
    recording = Recording(
        tmp_path, effective_quota=lambda _, client_id: LIMIT if client_id == "a" else None
    )
    first, second = Wire(recording.engine), Wire(recording.engine)
    first.client(f.heartbeat(1, "a") + f.heartbeat(2, "a")).broker(f.heartbeat_reply(1))
    second.client(f.heartbeat(1, "b"))
    first.advance(1000)
    first.broker(f.heartbeat_reply(2)).client(f.heartbeat(3, "a"))
    first.advance(700)
    recording.stop()

    rows = recording.rows("entity")

    assert [(row["ts_ms"] - START_MS, row["client_id"], row["requests"]) for row in rows] == [
        (0, "a", 2),
        (0, "b", 1),
        (1000, "a", 1),
    ]
    assert [row["seq"] for row in rows] == [1, 2, 3]
    assert {(row["instance"], row["boot"]) for row in rows} == {("pod-7", rows[0]["boot"])}
    assert [row["quota_rate"] for row in rows] == [50.0, None, 50.0]
    assert rows[0]["request_bytes"] == len(f.heartbeat(1, "a") + f.heartbeat(2, "a"))
    assert [row["response_bytes"] for row in rows] == [
        len(f.heartbeat_reply(1)),
        0,
        len(f.heartbeat_reply(2)),
    ]


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(1, 4), st.integers(0, 3000), st.booleans()),
        max_size=12,
    )
)
@settings(max_examples=25)
def test_the_rows_of_both_families_add_up_to_what_was_sent(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int, bool]]
) -> None:
    """The sums over all rows are the requests and bytes that passed, however they fall into seconds."""
    recording = Recording(tmp_path_factory.mktemp("usage-log"), ("entity", "api", "instance"))
    wires = {name: Wire(recording.engine) for name in "ab"}
    sent = {name: [0, 0, 0] for name in "ab"}
    owed: dict[str, list[int]] = {"a": [], "b": []}
    for name, count, pause_ms, answered in steps:
        for _ in range(count):
            number = sent[name][0] = sent[name][0] + 1
            frame = f.heartbeat(number, name)
            sent[name][1] += len(frame)
            owed[name].append(number)
            wires[name].client(frame)
        if answered:
            for number in owed[name]:
                wires[name].broker(f.heartbeat_reply(number))
                sent[name][2] += len(f.heartbeat_reply(number))
            owed[name].clear()
        wires[name].advance(pause_ms)
    for wire in wires.values():
        wire.release()
    recording.stop()

    for name, (requests, request_bytes, response_bytes) in sent.items():
        entity, api = (
            [row for row in recording.rows(family) if row["client_id"] == name]
            for family in ("entity", "api")
        )
        assert sum(row["requests"] for row in entity) == requests
        assert sum(row["charged"] for row in entity) == requests
        assert sum(row["request_bytes"] for row in entity) == request_bytes
        assert sum(row["response_bytes"] for row in entity) == response_bytes
        assert sum(row["requests"] for row in api) == requests
        assert sum(row["replied"] for row in api) == requests - len(owed[name])
        assert sum(row["disconnected"] for row in api) == len(owed[name])
        assert sum(sum(row["upstream_n"]) for row in api) == requests - len(owed[name])
        assert all(row["api"] == "Heartbeat" for row in api)


def test_the_process_has_a_row_a_second(tmp_path: Path) -> None:
    """The family `instance` has one row per second with the number of keys and sessions."""
    recording = Recording(tmp_path, ("instance",))
    wire = Wire(recording.engine)
    wire.client(f.heartbeat(1))
    for _ in range(3):
        wire.advance(1000)
    recording.stop()

    rows = recording.rows("instance")

    assert [row["ts_ms"] - START_MS for row in rows] == [0, 1000, 2000, 3000]
    assert [row["keys"] for row in rows] == [1, 0, 0, 0]
    assert {row["sessions"] for row in rows} == {1}
    assert {row["version"] for row in rows} == {"1.2.3"}
    assert list(tmp_path.glob("entity/*")) == []


def test_a_capture_has_what_the_policies_saw(tmp_path: Path) -> None:
    """A capture has one row per request with the calls and verdicts, and ends after `capture_max_ms`."""
    capture = Capture()
    policy = Recorder(lambda request: Throttle(250) if request.exchange_id == 2 else FORWARD)
    recording = Recording(tmp_path, ("capture",), [policy], capture=capture, capture_max_ms=2000)
    wire = Wire(recording.engine)
    wire.client(f.heartbeat(1))
    wire.advance(10)
    wire.broker(f.heartbeat_reply(1)).client(f.heartbeat(2))
    wire.broker(f.heartbeat_reply(2))
    wire.advance(3000)
    assert not capture.open
    wire.client(f.heartbeat(3)).broker(f.heartbeat_reply(3))
    recording.stop()

    rows = recording.rows("capture")

    assert [(row["seq"], row["verdict"], row["event"], row["replied_event"]) for row in rows] == [
        (1, "forward", 1, 2),
        (2, "throttle", 3, 4),
    ]


def test_rows_without_room_in_the_queue_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a full queue, entity rows are dropped and leave a gap in `seq`, and api rows come later."""
    monkeypatch.setattr(writer_thread, "MAX_QUEUED_ROWS", 5)
    recording = Recording(tmp_path, ("entity", "api"))
    wire = Wire(recording.engine)
    for number in range(1, 7):
        wire.client(f.heartbeat(number)).broker(f.heartbeat_reply(number))
        wire.advance(1000)
    assert recording.usage_log.dropped == 4
    recording.usage_log._thread.work()
    wire.client(f.heartbeat(7)).broker(f.heartbeat_reply(7))
    wire.advance(1000)
    recording.stop()

    assert [row["seq"] for row in recording.rows("entity")] == [1, 2, 7]
    api = recording.rows("api")
    assert [row["seq"] for row in api] == [1, 2, 3]
    assert [row["requests"] for row in api] == [1, 1, 5]
    assert recording.usage_log.dropped == 4


def test_nothing_is_written_after_close(tmp_path: Path) -> None:
    """A second that ends after `close` writes nothing, and a second `close` does no harm."""
    recording = Recording(tmp_path)
    wire = Wire(recording.engine)
    wire.client(f.heartbeat(1))
    recording.stop()
    wire.client(f.heartbeat(2))
    wire.advance(2000)
    recording.stop()

    assert [row["requests"] for row in recording.rows("entity")] == [1]


def test_the_thread_writes_and_ends(tmp_path: Path) -> None:
    """A started thread writes everything before `close` returns, and ends."""
    recording = Recording(tmp_path, ("entity", "instance"))
    recording.usage_log.start()
    wire = Wire(recording.engine)
    wire.client(f.heartbeat(1))
    wire.advance(1000)
    recording.stop()

    assert [row["requests"] for row in recording.rows("entity")] == [1]


def test_topics_have_rows(tmp_path: Path) -> None:
    """The counts of the topic book are written once a second as the family `topic`."""
    book = TopicUsage()
    recording = Recording(tmp_path, ("topic",), topic_usage=book)
    wire = Wire(recording.engine)
    book.produced_whole("alice", 3, bytearray(f.produce(1)[19:]), 0)
    wire.advance(1000)
    recording.stop()

    (row,) = recording.rows("topic")

    assert (row["user"], row["topic"], row["ts_ms"]) == ("alice", "t", START_MS)
    assert (row["produce_requests"], row["produce_partitions"], row["produce_bytes"]) == (1, 1, 50)
    assert row["fetch_replies"] == 0
