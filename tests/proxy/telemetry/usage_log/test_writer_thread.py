"""The thread that writes."""

from __future__ import annotations

import os
from threading import Event
from typing import TYPE_CHECKING

import structlog

from proxy.core.usage import UsageRow
from proxy.telemetry.usage_log.rows import Stamp
from proxy.telemetry.usage_log.writer import Writer
from proxy.telemetry.usage_log.writer_thread import Scribe, Second
from tests.support.recorded import START_MS, shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from proxy.telemetry.usage_log.rows import Row


def second(number: int, rows: int = 1) -> Second:
    ts_ms = START_MS + 1000 * number
    used = [UsageRow(ts_ms, "u", f"c{place}", *[1] * 13) for place in range(rows)]
    return Second(ts_ms, rows=used, effective_quota=[None] * rows)


class Taken:
    """An Outlet that remembers."""

    def __init__(self) -> None:
        self.lost = 0
        self.rows: list[Row] = []
        self.lines = b""

    def publish(self, rows: Sequence[Row], lines: bytes) -> None:
        self.rows += rows
        self.lines += lines


def scribe_of(directory: Path, outlet: Taken | None = None, **settings: int) -> Scribe:
    writer = Writer(directory, "a", "0195a3c2b1000042", **settings)
    writer.open()
    return Scribe(writer, Stamp("a", "0195a3c2b1000042"), "1", lambda: START_MS, outlet)


def test_told_to_reopen_it_shows_what_is_written_and_begins_another_file(tmp_path: Path) -> None:
    """Once for each time it is told."""
    scribe = scribe_of(tmp_path)
    scribe.put(second(0, rows=1))
    scribe.reopen()
    scribe.work()
    assert len(shown(tmp_path, "entity")) == 1
    scribe.put(second(1, rows=1))
    scribe.work()
    assert len(shown(tmp_path, "entity")) == 1
    assert scribe.close(10)
    assert len(shown(tmp_path, "entity")) == 2
    assert len(list(tmp_path.glob("entity/dt=*/*.jsonl"))) == 2


def test_what_is_put_in_is_written_in_order(tmp_path: Path) -> None:
    """Three seconds, one file, each row once."""
    scribe = scribe_of(tmp_path)
    scribe.start()
    for number in range(3):
        scribe.put(second(number, rows=2))

    assert scribe.close(10)
    assert [(row["seq"], row["ts_ms"] - START_MS) for row in shown(tmp_path, "entity")] == [
        (1, 0),
        (2, 0),
        (3, 1000),
        (4, 1000),
        (5, 2000),
        (6, 2000),
    ]
    assert scribe.dropped == 0


def test_an_outlet_gets_the_same_lines(tmp_path: Path) -> None:
    """What is published is what is written."""
    outlet = Taken()
    scribe = scribe_of(tmp_path, outlet)
    scribe.put(second(0, rows=3))
    scribe.close(10)

    (path,) = tmp_path.glob("entity/dt=*/*")
    assert outlet.lines == path.read_bytes()
    assert [row.seq for row in outlet.rows] == [1, 2, 3]


def test_a_disk_that_hangs_delays_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`put` returns at once, `close` after the time it was given; when the disk is back all is written."""
    hanging, well, back = Event(), Event(), Event()
    write = os.write

    def hang(descriptor: int, data: bytes) -> int:
        hanging.set()
        well.wait(120)
        back.set()
        return write(descriptor, data)

    scribe = scribe_of(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", hang)
        scribe.start()
        scribe.put(second(0))
        assert hanging.wait(10)
        scribe.put(second(1))
        assert scribe.has_room
        assert not scribe.close(0.05)
        assert not back.is_set()  # both are here, and the disk still hangs
    well.set()

    assert scribe.close(10)
    assert [row["seq"] for row in shown(tmp_path, "entity")] == [1, 2]


def test_a_bug_in_one_second_costs_that_second(tmp_path: Path) -> None:
    """It is told, and the next one is written."""
    scribe = scribe_of(tmp_path)
    with structlog.testing.capture_logs() as logs:
        scribe._log = structlog.get_logger()
        scribe.put(second(0)._replace(effective_quota=[]))
        scribe.put(second(1))
        scribe.close(10)

    assert [log["event"] for log in logs] == ["usage_log_failed"]
    assert [row["ts_ms"] for row in shown(tmp_path, "entity")] == [START_MS + 1000]


def test_a_full_disk_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line when it begins to refuse, one when it takes rows again, and the count of those lost."""

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    scribe = scribe_of(tmp_path)
    with structlog.testing.capture_logs() as logs:
        scribe._log = structlog.get_logger()
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", full)
            for number in range(3):
                scribe.put(second(number))
                scribe.work()
        scribe.put(second(3))
        scribe.work()
        scribe.close(10)

    assert [log["event"] for log in logs] == ["usage_log_not_written", "usage_log_written_again"]
    assert logs[1]["dropped"] == scribe.dropped == 3
    assert [row["seq"] for row in shown(tmp_path, "entity")] == [4]
