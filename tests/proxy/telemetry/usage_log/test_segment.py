"""Segments: file names, and one file from its first row to its rename."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.telemetry.usage_log.segment import (
    DAY_MS,
    Segment,
    SegmentName,
    day_folder,
    file_safe,
    new_boot,
    parse_name,
)

NAME = SegmentName("entity", "pod-7", "0195a3c2b1000042", 3)


def test_only_names_of_segments_are_parsed_and_open_ones_are_hidden() -> None:
    """The name of an open segment begins with a dot, which Spark skips."""
    assert NAME.hidden == ".entity-pod-7-0195a3c2b1000042-000003.jsonl.open"
    assert NAME.closed == "entity-pod-7-0195a3c2b1000042-000003.jsonl"

    others = ["entity.jsonl", "entity-a-b-1.jsonl", f"{NAME.closed}.gz", ".entity", "_SUCCESS"]
    others += [f".{NAME.closed}", f"{NAME.closed}.open"]

    assert [parse_name(other) for other in others] == [None] * len(others)


@given(
    family=st.sampled_from(["entity", "api", "instance", "topic", "access", "capture"]),
    instance=st.text(min_size=1),
    now_ms=st.integers(0, 2**43),
    number=st.integers(1, 10**7),
)
def test_a_name_is_parsed_back(family: str, instance: str, now_ms: int, number: int) -> None:
    """Both names of a segment parse to the parts they were made of, for any instance, and contain no slash."""
    name = SegmentName(family, file_safe(instance), new_boot(now_ms), number)

    assert parse_name(name.hidden) == parse_name(name.closed) == name
    assert "/" not in name.closed


def test_each_start_has_an_id_that_sorts_by_time() -> None:
    """It has a random part; a row goes to the folder of its day in UTC."""
    assert len({new_boot(1_000) for _ in range(20)}) > 10

    assert new_boot(1_763_000_000_000) < new_boot(1_763_000_000_001)

    assert day_folder(0) == "dt=1970-01-01"
    assert day_folder(86_399_999) == "dt=1970-01-01"
    assert day_folder(1_763_683_200_000) == "dt=2025-11-21"


def test_a_segment_is_hidden_until_it_is_closed(tmp_path: Path) -> None:
    """Appended lines are in the hidden file at once; `close` moves it to the folder of its day."""
    segment = Segment(tmp_path / "entity", NAME, 5 * DAY_MS)
    segment.append(b"one\ntwo\n")

    assert segment.path.name == NAME.hidden
    assert segment.path.read_bytes() == b"one\ntwo\n"

    assert segment.close() == 8
    closed = tmp_path / "entity" / "dt=1970-01-06" / NAME.closed
    assert closed.read_bytes() == b"one\ntwo\n"
    assert not segment.path.exists()


def test_an_empty_segment_is_deleted(tmp_path: Path) -> None:
    """Closing a segment without rows leaves no file."""
    segment = Segment(tmp_path / "entity", NAME, 0)

    assert segment.close() == 0
    assert list((tmp_path / "entity").iterdir()) == []


def test_half_a_line_is_truncated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full in the middle of a batch, no byte of the batch stays and earlier lines do."""
    segment = Segment(tmp_path / "entity", NAME, 0)
    segment.append(b"one\n")
    write = os.write
    calls: list[int] = []

    def full(descriptor: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "full")
        return write(descriptor, data[:3])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="full"):
            segment.append(b"two\nthree\n")

    assert calls == [10, 7]
    assert segment.path.read_bytes() == b"one\n"
    segment.append(b"four\n")
    segment.close()
    closed = tmp_path / "entity" / "dt=1970-01-01" / NAME.closed
    assert closed.read_bytes() == b"one\nfour\n"


def test_a_torn_segment_stays_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If half a line cannot be truncated either, `close` raises and readers never see the file."""
    write = os.write
    calls: list[int] = []

    def broken(descriptor: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(errno.EIO, "broken")
        return write(descriptor, data[:2])

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    segment = Segment(tmp_path / "entity", NAME, 0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", broken)
        patched.setattr(os, "ftruncate", refuse)
        with pytest.raises(OSError, match="broken"):
            segment.append(b"two\n")

    with pytest.raises(OSError, match="incomplete line"):
        segment.close()
    assert [path.name for path in (tmp_path / "entity").iterdir()] == [NAME.hidden]


@pytest.mark.parametrize("after", ["moved", "removed", "replaced"])
def test_a_segment_that_was_taken_away_is_noticed(tmp_path: Path, after: str) -> None:
    """`is_gone` tells that the file was moved, removed or replaced; `abandon` leaves its name alone."""
    segment = Segment(tmp_path / "entity", NAME, 0)
    segment.append(b"one\n")
    assert not segment.is_gone
    if after == "removed":
        segment.path.unlink()
    else:
        segment.path.rename(tmp_path / "elsewhere")
    if after == "replaced":
        segment.path.touch()
    assert segment.is_gone
    segment.abandon()
    assert segment.path.exists() == (after == "replaced")
