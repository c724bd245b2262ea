"""The one small file of a policy: what was saved is there, whole, or what was there before."""

from __future__ import annotations

import os
import stat

import pytest

from proxy.shell import files


def test_what_was_saved_is_loaded(tmp_path):
    """Any bytes, also none."""
    path = str(tmp_path / "state.json")
    for data in (b'{"a": 1}', b"", bytes(range(256)) * 100):
        files.save(path, data)
        assert files.load(path) == data


def test_nothing_was_saved_yet(tmp_path):
    """None is not the empty file."""
    assert files.load(str(tmp_path / "state.json")) is None


def test_what_cannot_be_read_is_an_error(tmp_path):
    """It must not be taken for nothing: the next save would lose it."""
    with pytest.raises(OSError, match="directory"):
        files.load(str(tmp_path))


def test_nothing_but_the_file_is_left(tmp_path):
    """What was written beside it has taken its place."""
    path = tmp_path / "state.json"
    files.save(str(path), b"one")
    files.save(str(path), b"two")
    assert list(tmp_path.iterdir()) == [path]


def test_whoever_has_it_open_still_reads_the_old_content(tmp_path):
    """Replaced, never overwritten."""
    path = tmp_path / "state.json"
    files.save(str(path), b"one")
    with path.open("rb") as reader:
        files.save(str(path), b"something longer")
        assert reader.read() == b"one"
    assert path.read_bytes() == b"something longer"


def test_only_its_owner_may_read_it(tmp_path):
    """Names of users stand in it."""
    path = tmp_path / "state.json"
    files.save(str(path), b"one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_where_nothing_can_be_written_an_error_says_so(tmp_path):
    """No folder, no file."""
    with pytest.raises(FileNotFoundError):
        files.save(str(tmp_path / "missing" / "state.json"), b"one")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_save_that_fails_leaves_the_old_content_and_nothing_else(tmp_path, monkeypatch, step):
    """A full disk, a broken one: the error is told, the half-written file is gone."""
    path = tmp_path / "state.json"
    files.save(str(path), b"one")

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(files.os if step == "fsync" else files.Path, step, fail)
    with pytest.raises(OSError, match="no space"):
        files.save(str(path), b"two")
    monkeypatch.undo()
    assert files.load(str(path)) == b"one"
    assert list(tmp_path.iterdir()) == [path]


def test_content_and_name_are_on_the_disk_before_anybody_is_told(tmp_path, monkeypatch):
    """The file is flushed before it takes the name, the folder afterwards."""
    path = tmp_path / "state.json"
    order: list[str] = []
    fsync, replace = os.fsync, files.Path.replace

    def noted_fsync(fd):
        order.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        fsync(fd)

    def noted_replace(self, target):
        order.append("replace")
        return replace(self, target)

    monkeypatch.setattr(files.os, "fsync", noted_fsync)
    monkeypatch.setattr(files.Path, "replace", noted_replace)
    files.save(str(path), b"one")
    assert order == ["file", "replace", "folder"]
