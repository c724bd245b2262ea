"""Segments of an instance: how they rotate, and how the oldest are deleted."""

import errno
import os
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.telemetry.usage_log.retention import Retention, SegmentWriter
from proxy.telemetry.usage_log.rows import TopicRow
from proxy.telemetry.usage_log.segment import DAY_MS, SegmentName

BOOT = "0195a3c2b1000042"
COUNTS = [field.name for field in msgspec.structs.fields(TopicRow) if field.type is int][4:]


def row(seq: int, ts_ms: int = 1000, topic: str = "t") -> TopicRow:
    """Return a row."""
    used = dict.fromkeys(COUNTS, 1)
    return TopicRow(instance="a", boot=BOOT, seq=seq, ts_ms=ts_ms, user="u", topic=topic, **used)


def lines(directory: Path) -> list[TopicRow]:
    """Return the rows of all closed segments, in the order of their names."""
    decode = msgspec.json.Decoder(TopicRow).decode_lines
    return [
        each
        for path in sorted(directory.glob("*/dt=*/*.jsonl"))
        for each in decode(path.read_bytes())
    ]


def open_writer(directory: Path, **settings: int) -> SegmentWriter:
    writer = SegmentWriter(directory, "a", BOOT, **settings)
    writer.open()
    return writer


def test_a_segment_is_closed_after_its_time(tmp_path: Path) -> None:
    """A segment is closed `rotate_ms` after its first row, and the next row begins another."""
    writer = open_writer(tmp_path, rotate_ms=60_000)
    writer.write("topic", [row(1)], 5_000)

    writer.tick(64_999)
    assert lines(tmp_path) == []
    assert writer.next_tick_ms() == 65_000

    writer.tick(65_000)
    assert lines(tmp_path) == [row(1)]
    assert writer.next_tick_ms() is None

    writer.write("topic", [row(2)], 65_000)
    writer.close()
    assert lines(tmp_path) == [row(1), row(2)]


def test_a_segment_is_closed_at_its_size_and_at_the_end_of_a_day(tmp_path: Path) -> None:
    """Once it reaches `rotate_bytes`, and before the first row after midnight (UTC)."""
    writer = open_writer(tmp_path, rotate_bytes=1000, keep_bytes=1 << 20)

    for seq in range(1, 11):
        writer.write("topic", [row(seq)], 0)

    assert 1 < len(list(tmp_path.glob("topic/dt=*/*"))) < 10
    writer.close()
    assert [each.seq for each in lines(tmp_path)] == list(range(1, 11))

    writer = open_writer(tmp_path)
    writer.write("topic", [row(1, DAY_MS - 1000)], 0)
    writer.write("topic", [row(2, DAY_MS)], 1000)
    writer.close()

    days = {path.name for path in tmp_path.glob("topic/dt=*")}
    assert days == {"dt=1970-01-01", "dt=1970-01-02"}


def test_disk_use_is_bounded(tmp_path: Path) -> None:
    """All segments together never exceed `keep_bytes` and one batch, and the newest rows are kept."""
    keep_bytes = 1 << 16
    writer = open_writer(tmp_path, rotate_bytes=1 << 24, keep_bytes=keep_bytes)
    max_bytes = 0
    for second in range(200):
        batch_bytes = len(writer.write("topic", [row(second * 10 + n) for n in range(10)], second))
        there = sum(path.stat().st_size for path in tmp_path.rglob("*.jsonl*"))
        max_bytes = max(max_bytes, there)
    writer.close()

    assert keep_bytes // 2 < max_bytes <= keep_bytes + batch_bytes
    assert writer.deleted > 0
    assert lines(tmp_path)[-1].seq == 1999


def test_rows_lost_to_a_full_disk_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk raises nothing and tears no line; writing resumes when there is room."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    writer = open_writer(tmp_path)
    writer.write("topic", [row(1), row(2)], 0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        writer.write("topic", [row(3), row(4)], 1000)
        writer.write("topic", [row(5)], 2000)
        assert writer.fault is not None
    assert writer.dropped == 3

    writer.write("topic", [row(6)], 3000)
    writer.close()

    assert writer.fault is None
    assert [each.seq for each in lines(tmp_path)] == [1, 2, 6]
    assert list(tmp_path.glob("topic/.*")) == []


def test_a_segment_that_could_not_be_renamed_is_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment stays hidden until the next tick recovers it; the open segment is left alone."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "no")

    writer = open_writer(tmp_path, rotate_ms=1000)
    writer.write("topic", [row(1)], 0)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuse)
        writer.tick(1000)
        writer.write("topic", [row(2)], 1000)
    assert lines(tmp_path) == []

    writer.tick(1500)
    assert lines(tmp_path) == [row(1)]
    assert len(list(tmp_path.glob("topic/.*"))) == 1

    writer.close()
    assert lines(tmp_path) == [row(1), row(2)]


def test_the_next_start_recovers_after_a_crash(tmp_path: Path) -> None:
    """`open` recovers the segments that a dead process of the same instance left, and returns their number."""
    (tmp_path / "topic").mkdir()
    left = tmp_path / "topic" / SegmentName("topic", "a", BOOT, 1).hidden
    left.write_bytes(msgspec.json.encode(row(1)) + b"\n")

    recovered = SegmentWriter(tmp_path, "a", "0195a3c2b1000043").open()

    assert recovered.files == 1
    assert lines(tmp_path) == [row(1)]


@pytest.mark.parametrize("how", ["file", "folder"])
def test_a_removed_segment_costs_no_later_row(tmp_path: Path, how: str) -> None:
    """The next rows begin another segment, whether the removal is noticed at a write or at a tick."""
    writer = open_writer(tmp_path)

    def remove() -> None:
        for path in [*(tmp_path / "topic").iterdir()]:
            path.unlink()
        if how == "folder":
            (tmp_path / "topic").rmdir()

    writer.write("topic", [row(1)], 0)
    remove()
    writer.write("topic", [row(2)], 0)
    writer.write("topic", [row(3)], 0)
    remove()
    writer.tick(10**9)
    assert (writer.fault, writer.next_tick_ms()) == (None, None)
    writer.write("topic", [row(4)], 10**9)
    writer.close()
    assert lines(tmp_path) == [row(4)]
    assert writer.dropped == 0


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """`open` raises the system's error, so that the start fails."""
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(OSError, match="file"):
        SegmentWriter(tmp_path / "file" / "usage-log", "a", BOOT).open()


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["topic", "entity"]), st.integers(1, 5), st.integers(0, 40_000)),
        max_size=30,
    ),
    rotate_bytes=st.integers(1, 4000),
)
def test_every_row_is_there_once_in_order(
    steps: list[tuple[str, int, int]], rotate_bytes: int
) -> None:
    """After `close` the closed segments hold each row of each family once, in order, for any sizes and pauses."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: None)  # a fsync per file would take minutes
        directory = Path(folder)
        writer = open_writer(directory, rotate_ms=30_000, rotate_bytes=rotate_bytes)
        written: Counter[str] = Counter()
        now_ms = 0
        for family, count, pause_ms in steps:
            rows = [row(written[family] + n, now_ms, family) for n in range(1, count + 1)]
            writer.write(family, rows, now_ms)
            written[family] += count
            now_ms += pause_ms
            writer.tick(now_ms)
        writer.close()

        shown = lines(directory)
        for family, count in written.items():
            assert [each.seq for each in shown if each.topic == family] == list(range(1, count + 1))
        assert len(shown) == written.total()
        assert list(directory.glob("*/.*")) == []


def put(directory: Path, place: int, size_bytes: int, instance: str = "a") -> Path:
    """Make a closed segment, written at second `place`; every ten have a day of their own."""
    name = SegmentName("entity", instance, "0195a3c2b1000042", place)
    path = directory / "entity" / f"dt=1970-01-{1 + place // 10:02d}" / name.closed
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size_bytes)
    os.utime(path, (place, place))
    return path


def test_the_oldest_segments_are_deleted_first(tmp_path: Path) -> None:
    """Beyond `keep_bytes` the oldest segments are deleted, until a sixteenth of it is free."""
    files = [put(tmp_path, place, 100) for place in range(20)]
    retention = Retention(tmp_path, "a", 1600)
    retention.scan()

    retention.make_room(0)

    assert [path.exists() for path in files] == [False] * 5 + [True] * 15
    assert retention.deleted == 5
    assert retention.closed_bytes == 1500


def test_open_segments_count(tmp_path: Path) -> None:
    """The bytes of open segments count towards `keep_bytes`."""
    files = [put(tmp_path, place, 100) for place in range(10)]
    retention = Retention(tmp_path, "a", 1600)
    retention.scan()

    retention.make_room(600)
    assert all(path.exists() for path in files)

    retention.make_room(700)
    assert sum(path.exists() for path in files) == 8


def test_files_of_others_are_neither_counted_nor_deleted(tmp_path: Path) -> None:
    """Segments of another instance and other files in the directory stay and do not count."""
    other = put(tmp_path, 0, 5000, instance="b")
    note = tmp_path / "entity" / "dt=1970-01-01" / "notes.jsonl"
    note.write_bytes(b"x" * 5000)
    mine = put(tmp_path, 1, 2000)
    retention = Retention(tmp_path, "a", 1600)
    retention.scan()

    retention.make_room(0)

    assert (other.exists(), note.exists(), mine.exists()) == (True, True, False)


def test_what_others_remove_makes_room_and_an_empty_day_goes(tmp_path: Path) -> None:
    """If another process has removed enough segments, none is deleted; the folder of a day goes with its last one."""
    files = [put(tmp_path, place, 100) for place in range(20)]
    retention = Retention(tmp_path, "a", 1600)
    retention.scan()
    for path in files[10:]:
        path.unlink()
    retention.closed_bytes += 100

    retention.make_room(0)

    assert all(path.exists() for path in files[:10])
    assert retention.deleted == 0

    for place in range(20):
        put(tmp_path, place, 100)
    retention = Retention(tmp_path, "a", 1000)
    retention.scan()

    retention.make_room(0)

    assert [path.name for path in (tmp_path / "entity").iterdir()] == ["dt=1970-01-02"]
