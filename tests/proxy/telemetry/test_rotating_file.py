"""A bounded file of whole lines; test_audit_log and traces/test_file_exporter test its users."""

import errno
import os

import pytest

from proxy.telemetry.rotating_file import RotatingFile


def test_an_incomplete_last_line_is_removed(tmp_path):
    """A crash left it; the next line starts on a line of its own."""
    path = tmp_path / "lines"
    path.write_bytes(b"whole\nhal")
    file = RotatingFile(path, 1000)
    file.append(b"next\n")
    file.close()
    assert path.read_bytes() == b"whole\nnext\n"


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


def test_a_line_that_is_written_in_part_is_removed(tmp_path, monkeypatch):
    """The caller gets the error and counts it."""
    path = tmp_path / "lines"
    file = RotatingFile(path, 1000)
    file.append(b"first\n")
    write, room = os.write, [3]

    def full(fd, data):
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, bytes(data)[: room.pop()])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            file.append(b"second\n")
    file.append(b"third\n")
    file.close()
    assert path.read_bytes() == b"first\nthird\n"
