"""A bounded file of whole lines, as the audit log and the trace file use it."""

import errno
import os

import pytest

from proxy.telemetry.rotating_file import RotatingFile


def no_space(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("torn", [b"", b"hal", b"x" * 200_000])
@pytest.mark.parametrize("before", [b"", b"whole\n"])
def test_an_incomplete_last_line_is_removed(tmp_path, before, torn):
    """A crash left it; the next line starts on a line of its own, after those of the last process."""
    path = tmp_path / "lines"
    path.write_bytes(before + torn)
    file = RotatingFile(path, 1000)
    file.append(b"next\n")
    file.close()
    assert path.read_bytes() == before + b"next\n"


def test_at_most_two_files_are_kept(tmp_path):
    """Each line is in them once, and none is torn, for any number of lines."""
    path = tmp_path / "lines"
    file = RotatingFile(path, 100)
    for n in range(100):
        file.append(b"%09d\n" % n)
    file.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["lines", "lines.1"]
    kept = (tmp_path / "lines.1").read_bytes() + path.read_bytes()
    assert kept == b"".join(b"%09d\n" % n for n in range(80, 100))


def test_a_line_larger_than_the_file_is_still_written(tmp_path):
    """It gets a file of its own."""
    path = tmp_path / "lines"
    file = RotatingFile(path, 10)
    for word in (b"first", b"second"):
        file.append(word * 10 + b"\n")
    file.close()
    assert (tmp_path / "lines.1").read_bytes() == b"first" * 10 + b"\n"
    assert path.read_bytes() == b"second" * 10 + b"\n"


@pytest.mark.parametrize("after", ["moved", "removed", "replaced"])
def test_a_file_that_was_moved_is_created_again(tmp_path, after):
    """Logrotate may move it: the next line goes to a file of the configured name, without a signal."""
    path, moved = tmp_path / "lines", tmp_path / "lines-2026"
    file = RotatingFile(path, 1000)
    file.append(b"first\n")
    if after == "removed":
        path.unlink()
    else:
        path.rename(moved)
    if after == "replaced":
        path.touch()
    file.append(b"second\n")
    file.append(b"third\n")
    file.close()
    assert path.read_bytes() == b"second\nthird\n"
    assert not moved.exists() or moved.read_bytes() == b"first\n"


def test_a_file_that_was_truncated_continues_at_its_end(tmp_path, monkeypatch):
    """This is logrotate's copytruncate; a failed write after it leaves no hole either."""
    path = tmp_path / "lines"
    file = RotatingFile(path, 1000)
    file.append(b"first\n")
    os.truncate(path, 0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", no_space)
        with pytest.raises(OSError, match="No space"):
            file.append(b"lost\n")
    assert path.stat().st_size == 0
    file.append(b"second\n")
    file.close()
    assert path.read_bytes() == b"second\n"


def test_a_missing_folder_is_reported_and_tried_again(tmp_path):
    """At the start, and by each line; the first line after the folder is back is written."""
    folder = tmp_path / "folder"
    with pytest.raises(OSError, match="No such file"):
        RotatingFile(folder / "lines", 1000)
    folder.mkdir()
    file = RotatingFile(folder / "lines", 1000)
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="No such file"):
        file.append(b"lost\n")
    folder.mkdir()
    file.append(b"next\n")
    file.close()
    assert (folder / "lines").read_bytes() == b"next\n"


def test_a_line_that_is_written_in_part_is_removed(tmp_path, monkeypatch):
    """The caller gets the error and counts it."""
    path = tmp_path / "lines"
    file = RotatingFile(path, 1000)
    file.append(b"first\n")
    write, room = os.write, [3]
    with monkeypatch.context() as patched:
        patched.setattr(
            os, "write", lambda fd, data: write(fd, data[: room.pop()]) if room else no_space()
        )
        with pytest.raises(OSError, match="No space"):
            file.append(b"second\n")
    file.append(b"third\n")
    file.close()
    assert path.read_bytes() == b"first\nthird\n"
