"""Rows in, files out."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.telemetry.usage_log.names import DAY_MS
from proxy.telemetry.usage_log.rows import TopicRow
from proxy.telemetry.usage_log.writer import Writer

BOOT = "0195a3c2b1000042"
COUNTS = [field.name for field in msgspec.structs.fields(TopicRow) if field.type is int][4:]


def row(seq: int, ts_ms: int = 1000, topic: str = "t") -> TopicRow:
    """Some row."""
    used = dict.fromkeys(COUNTS, 1)
    return TopicRow(instance="a", boot=BOOT, seq=seq, ts_ms=ts_ms, user="u", topic=topic, **used)


def lines(directory: Path) -> list[TopicRow]:
    """All rows that a reader is shown, file after file."""
    decode = msgspec.json.Decoder(TopicRow).decode_lines
    return [
        each
        for path in sorted(directory.glob("*/dt=*/*.jsonl"))
        for each in decode(path.read_bytes())
    ]


def open_writer(directory: Path, **settings: int) -> Writer:
    writer = Writer(directory, "a", BOOT, **settings)
    writer.open()
    return writer


def test_a_file_is_closed_after_its_time(tmp_path: Path) -> None:
    """Nothing is shown before `rotate_ms`; then what was written is, and the next row begins another file."""
    writer = open_writer(tmp_path, rotate_ms=60_000)
    writer.write("topic", [row(1)], 5_000)

    writer.tick(64_999)
    assert lines(tmp_path) == []
    assert writer.next_ms() == 65_000

    writer.tick(65_000)
    assert lines(tmp_path) == [row(1)]
    assert writer.next_ms() is None

    writer.write("topic", [row(2)], 65_000)
    writer.close()
    assert lines(tmp_path) == [row(1), row(2)]


def test_a_file_is_closed_at_its_size(tmp_path: Path) -> None:
    """A full file is closed at once, whatever its age."""
    writer = open_writer(tmp_path, rotate_bytes=1000, keep_bytes=1 << 20)

    for seq in range(1, 11):
        writer.write("topic", [row(seq)], 0)

    assert 1 < len(list(tmp_path.glob("topic/dt=*/*"))) < 10
    writer.close()
    assert [each.seq for each in lines(tmp_path)] == list(range(1, 11))


def test_a_day_has_its_own_files(tmp_path: Path) -> None:
    """Midnight (UTC) closes the file."""
    writer = open_writer(tmp_path)
    writer.write("topic", [row(1, DAY_MS - 1000)], 0)
    writer.write("topic", [row(2, DAY_MS)], 1000)
    writer.close()

    assert sorted(path.parent.name for path in tmp_path.glob("topic/dt=*/*")) == [
        "dt=1970-01-01",
        "dt=1970-01-02",
    ]


def test_the_room_is_bounded(tmp_path: Path) -> None:
    """However much is written, no more than `keep_bytes` and one batch lie there, and the newest are kept."""
    keep_bytes = 1 << 16
    writer = open_writer(tmp_path, rotate_bytes=1 << 24, keep_bytes=keep_bytes)
    batch = [row(seq) for seq in range(10)]
    most_bytes = 0
    for second in range(200):
        batch_bytes = len(writer.write("topic", [row(second * 10 + n) for n in range(10)], second))
        there = sum(path.stat().st_size for path in tmp_path.rglob("*.jsonl*"))
        most_bytes = max(most_bytes, there)
    writer.close()

    assert keep_bytes // 2 < most_bytes <= keep_bytes + batch_bytes
    assert writer.deleted > 0
    assert lines(tmp_path)[-1].seq == 1999
    assert len(batch) == 10


def test_a_disk_that_is_full_loses_rows_and_says_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is raised; what was whole stays whole; when there is room again writing goes on."""

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


def test_a_file_that_could_not_be_renamed_is_taken_up_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays hidden, and the next tick tries again; what grows meanwhile is left alone."""

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


def test_a_new_process_shows_what_the_old_one_left(tmp_path: Path) -> None:
    """A crash: the next start of the same instance adopts, and says so."""
    dead = open_writer(tmp_path)
    dead.write("topic", [row(1)], 0)
    (growing,) = dead._growing.values()
    os.close(growing._descriptor)  # as the kernel does it

    adopted = Writer(tmp_path, "a", "0195a3c2b1000043").open()

    assert adopted.files == 1
    assert lines(tmp_path) == [row(1)]


@pytest.mark.parametrize("how", ["file", "folder"])
def test_a_file_that_was_removed_costs_no_row_that_comes_later(tmp_path: Path, how: str) -> None:
    """The next rows begin another, whether it is seen at them or at the end of its time."""
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
    assert (writer.fault, writer.next_ms()) == (None, None)
    writer.write("topic", [row(4)], 10**9)
    writer.close()
    assert lines(tmp_path) == [row(4)]
    assert writer.dropped == 0


def test_a_directory_that_cannot_be_made_is_told_at_once(tmp_path: Path) -> None:
    """The start fails with the system's own words, before anything is served."""
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(OSError, match="file"):
        Writer(tmp_path / "file" / "usage-log", "a", BOOT).open()


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["topic", "entity"]), st.integers(1, 5), st.integers(0, 40_000)),
        max_size=30,
    ),
    rotate_bytes=st.integers(1, 4000),
)
def test_every_row_is_shown_once_in_order(
    steps: list[tuple[str, int, int]], rotate_bytes: int
) -> None:
    """Whatever the sizes and pauses, after `close` each family's rows are there, each once, in order."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            os, "fsync", lambda _: None
        )  # so many files, and the disk is not asked here
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
