"""The file of one family that grows."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from proxy.telemetry.usage_log.names import DAY_MS, FileName, is_hidden
from proxy.telemetry.usage_log.segment import GrowingFile

if TYPE_CHECKING:
    from pathlib import Path

NAME = FileName("entity", "a", "0195a3c2b1000042", 1)


def test_it_is_hidden_until_it_is_whole(tmp_path: Path) -> None:
    """What was appended is there at once, under a hidden name; closed it stands in its day's folder."""
    growing = GrowingFile.begin(tmp_path / "entity", NAME, 5 * DAY_MS)
    growing.append(b"one\ntwo\n")

    assert is_hidden(growing.path)
    assert growing.path.read_bytes() == b"one\ntwo\n"

    closed = growing.close()

    assert closed.path == tmp_path / "entity" / "dt=1970-01-06" / NAME.closed
    assert closed.path.read_bytes() == b"one\ntwo\n"
    assert closed.size_bytes == 8
    assert not growing.path.exists()


def test_an_empty_one_leaves_nothing(tmp_path: Path) -> None:
    """A file without a row is not shown."""
    growing = GrowingFile.begin(tmp_path / "entity", NAME, 0)

    assert growing.close().size_bytes == 0
    assert list((tmp_path / "entity").iterdir()) == []


def test_it_holds_one_day(tmp_path: Path) -> None:
    """A row of the next day belongs into another file."""
    growing = GrowingFile.begin(tmp_path / "entity", NAME, DAY_MS)

    assert growing.has_room(2 * DAY_MS - 1)
    assert not growing.has_room(2 * DAY_MS)
    growing.close()


def test_half_a_line_is_cut_off_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full in the middle of a batch: nothing of the batch stays, what was there before does."""
    growing = GrowingFile.begin(tmp_path / "entity", NAME, 0)
    growing.append(b"one\n")
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
            growing.append(b"two\nthree\n")

    assert calls == [10, 7]
    assert growing.path.read_bytes() == b"one\n"
    growing.append(b"four\n")
    assert growing.close().path.read_bytes() == b"one\nfour\n"


def test_one_that_cannot_be_made_whole_stays_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the half line cannot be cut off either, no reader is shown the file."""

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    growing = GrowingFile.begin(tmp_path / "entity", NAME, 0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", broken)
        patched.setattr(os, "ftruncate", broken)
        with pytest.raises(OSError, match="broken"):
            growing.append(b"two\n")

    with pytest.raises(OSError, match="half a line"):
        growing.close()
    assert [path.name for path in (tmp_path / "entity").iterdir()] == [NAME.hidden]


@pytest.mark.parametrize("after", ["moved", "removed", "replaced"])
def test_one_that_was_taken_away_is_noticed(tmp_path: Path, after: str) -> None:
    """It is closed as it is; nothing of that name is touched."""
    growing = GrowingFile.begin(tmp_path / "entity", NAME, 0)
    growing.append(b"one\n")
    assert not growing.is_gone
    if after == "removed":
        growing.path.unlink()
    else:
        growing.path.rename(tmp_path / "elsewhere")
    if after == "replaced":
        growing.path.touch()
    assert growing.is_gone
    growing.abandon()
    assert growing.path.exists() == (after == "replaced")
