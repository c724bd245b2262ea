"""A bounded file of whole lines; what its users see of it is in test_audit and traces/test_file."""

from __future__ import annotations

import errno
import os

import pytest

from proxy.telemetry.rotating_file import RotatingFile


def test_what_a_crash_has_left_behind_the_last_newline_is_cut(tmp_path):
    """And a new line stands on its own."""
    path = tmp_path / "lines"
    path.write_bytes(b"whole\nhal")
    file = RotatingFile(path, 1000)
    file.append(b"next\n")
    file.close()
    assert path.read_bytes() == b"whole\nnext\n"


def test_two_files_are_the_most_that_the_disk_holds(tmp_path):
    """However many lines there are, each of them once, and none torn."""
    path = tmp_path / "lines"
    file = RotatingFile(path, 100)
    for n in range(100):
        file.append(b"%09d\n" % n)
    file.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["lines", "lines.1"]
    kept = (tmp_path / "lines.1").read_bytes() + path.read_bytes()
    assert kept == b"".join(b"%09d\n" % n for n in range(80, 100))


def test_a_disk_that_takes_half_a_line_has_none_of_it(tmp_path, monkeypatch):
    """The error is the caller's to count."""
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
