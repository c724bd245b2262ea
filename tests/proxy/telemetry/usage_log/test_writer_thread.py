"""The thread that writes rows."""

import os
from collections.abc import Iterable
from pathlib import Path
from threading import Event

import pytest
import structlog

from proxy.core.stats.usage import UsageRow
from proxy.telemetry.usage_log.retention import SegmentWriter
from proxy.telemetry.usage_log.rows import Sequencer
from proxy.telemetry.usage_log.writer_thread import Second, WriterThread
from tests.support.telemetry.usage_log import START_MS, shown


def second(number: int, rows: int = 1) -> Second:
    ts_ms = START_MS + 1000 * number
    used = [UsageRow(ts_ms, "u", f"c{place}", *[1] * 13) for place in range(rows)]
    return Second(ts_ms, rows=used, effective_quota=[None] * rows)


class FakePublisher:
    """A TopicPublisher that keeps its messages."""

    def __init__(self) -> None:
        self.lost = 0
        self.messages: list[tuple[bytes, bytes]] = []

    def publish(self, messages: Iterable[tuple[bytes, bytes]]) -> None:
        self.messages += messages


def thread_of(
    directory: Path, publisher: FakePublisher | None = None, **settings: int
) -> WriterThread:
    writer = SegmentWriter(directory, "a", "0195a3c2b1000042", **settings)
    writer.open()
    return WriterThread(
        writer, Sequencer("a", "0195a3c2b1000042"), "1", lambda: START_MS, publisher
    )


def test_reopen_closes_the_open_segments(tmp_path: Path) -> None:
    """Each `reopen` closes the open segments once, and the next rows begin others."""
    thread = thread_of(tmp_path)
    thread.put(second(0, rows=1))
    thread.reopen()
    thread.work()
    assert len(shown(tmp_path, "entity")) == 1
    thread.put(second(1, rows=1))
    thread.work()
    assert len(shown(tmp_path, "entity")) == 1
    assert thread.close(10)
    assert len(shown(tmp_path, "entity")) == 2
    assert len(list(tmp_path.glob("entity/dt=*/*.jsonl"))) == 2


def test_rows_are_written_in_order(tmp_path: Path) -> None:
    """The rows of three seconds are in one segment, each once and in order."""
    thread = thread_of(tmp_path)
    thread.start()
    for number in range(3):
        thread.put(second(number, rows=2))

    assert thread.close(10)
    assert [(row["seq"], row["ts_ms"] - START_MS) for row in shown(tmp_path, "entity")] == [
        (1, 0),
        (2, 0),
        (3, 1000),
        (4, 1000),
        (5, 2000),
        (6, 2000),
    ]
    assert thread.dropped == 0


def test_the_publisher_gets_the_same_lines(tmp_path: Path) -> None:
    """Each row is published as it is written, and its key names the instance, user and client id."""
    publisher = FakePublisher()
    thread = thread_of(tmp_path, publisher)
    thread.put(second(0, rows=3))
    thread.close(10)

    (path,) = tmp_path.glob("entity/dt=*/*")
    assert [value for _, value in publisher.messages] == path.read_bytes().splitlines()
    assert [key for key, _ in publisher.messages] == [b"a|u|c0", b"a|u|c1", b"a|u|c2"]


def test_a_disk_that_hangs_blocks_no_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`put` returns at once and `close` after its timeout; when the disk works again everything is written."""
    hanging, well, back = Event(), Event(), Event()
    write = os.write

    def hang(descriptor: int, data: bytes) -> int:
        hanging.set()
        well.wait(120)
        back.set()
        return write(descriptor, data)

    thread = thread_of(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", hang)
        thread.start()
        thread.put(second(0))
        assert hanging.wait(120)
        thread.put(second(1))
        assert thread.has_room
        assert not thread.close(0.05)
        assert not back.is_set()  # both returned while the disk hangs
    well.set()

    assert thread.close(10)
    assert [row["seq"] for row in shown(tmp_path, "entity")] == [1, 2]


def test_a_bug_costs_one_second(tmp_path: Path) -> None:
    """An exception in one second is logged, and the next second is written."""
    with structlog.testing.capture_logs() as logs:
        thread = thread_of(tmp_path)
        thread.put(second(0)._replace(effective_quota=[]))
        thread.put(second(1))
        thread.close(10)

    assert [log["event"] for log in logs] == ["usage_log_failed"]
    assert [row["ts_ms"] for row in shown(tmp_path, "entity")] == [START_MS + 1000]


def test_a_full_disk_is_logged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One event says that the disk refuses rows, one that it takes them again and how many were lost."""

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with structlog.testing.capture_logs() as logs:
        thread = thread_of(tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", full)
            for number in range(3):
                thread.put(second(number))
                thread.work()
        thread.put(second(3))
        thread.work()
        thread.close(10)

    assert [log["event"] for log in logs] == ["usage_log_not_written", "usage_log_written_again"]
    assert logs[1]["dropped"] == thread.dropped == 3
    assert [row["seq"] for row in shown(tmp_path, "entity")] == [4]
