"""The state file of a policy: after a save it holds the new content or, if the save failed, the old."""

import os
import stat

import pytest

from proxy.shell import files


def test_saved_bytes_are_loaded_unchanged_and_a_file_that_was_never_saved_is_none(tmp_path):
    """Any bytes, also none. Taken for a missing file, an unreadable one would be lost at the next save."""
    path = str(tmp_path / "state.json")
    for data in (b'{"a": 1}', b"", bytes(range(256)) * 100):
        files.save(path, data)
        assert files.load(path) == data

    assert files.load(str(tmp_path / "never.json")) is None

    with pytest.raises(OSError, match="directory"):
        files.load(str(tmp_path))

    with pytest.raises(FileNotFoundError):
        files.save(str(tmp_path / "missing" / "state.json"), b"one")


def test_a_file_that_others_write_is_read_up_to_its_bound(tmp_path):
    """One byte more is refused; so are a FIFO, which would block, a folder and a missing file."""
    path = tmp_path / "quotas.yaml"
    path.write_bytes(b"abc")
    assert files.read(str(path), 3) == b"abc"
    with pytest.raises(OSError, match="more than 2 bytes"):
        files.read(str(path), 2)
    os.mkfifo(tmp_path / "fifo")
    for name, words in (("fifo", "not a regular"), ("", "regular|directory"), ("none", "No such")):
        with pytest.raises(OSError, match=words):
            files.read(str(tmp_path / name), 9)


def test_a_save_replaces_the_file_for_its_owner_only(tmp_path):
    """A reader that opened the file before reads the old content; its mode is 0600, as it may hold names of users."""
    path = tmp_path / "state.json"
    files.save(str(path), b"one")
    files.save(str(path), b"two")
    assert list(tmp_path.iterdir()) == [path]

    files.save(str(path), b"one")
    with path.open("rb") as reader:
        files.save(str(path), b"something longer")
        assert reader.read() == b"one"
    assert path.read_bytes() == b"something longer"

    files.save(str(path), b"one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_save_that_fails_leaves_the_old_content_and_nothing_else(tmp_path, monkeypatch, step):
    """The error is raised, and the incomplete file is removed."""
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


def test_content_and_name_are_on_the_disk_when_save_returns(tmp_path, monkeypatch):
    """The file is flushed before it is renamed, and the folder after that."""
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
