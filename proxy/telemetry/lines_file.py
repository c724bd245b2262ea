"""A file of lines that never holds half a line, and never more than it may.

Rules:
- A line is written whole or not at all: what a full disk has cut off is taken back, and what a crash has left
  behind the last newline is cut when the file is opened again.
- At `max_bytes` the file becomes FILE.1 and a new one begins: the disk holds twice that at most.
- Before each line it looks whether its file is still the one of that name: one that was moved away or removed
  (logrotate) is begun again, and one that was cut (copytruncate) goes on from its new end.
- It belongs to one thread, which it may block.
"""

from __future__ import annotations

import os
from pathlib import Path

_LOOK_BACK_BYTES = 65536


class LinesFile:
    """See the module. Raises OSError if the file cannot be opened."""

    def __init__(self, path: str | Path, max_bytes: int) -> None:
        self._path = Path(path)
        self._max_bytes = max_bytes
        self._open()

    def append(self, line: bytes) -> None:
        """Write a line (with its newline). Raises OSError when nothing of it was written."""
        self._follow_name()
        if self._size_bytes and self._size_bytes + len(line) > self._max_bytes:
            self._rotate()
        self._write(line)

    def close(self) -> None:
        """No more lines will come."""
        os.close(self._fd)

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, 0o640)
        self._size_bytes = _end_of_last_line(self._fd)
        os.ftruncate(self._fd, self._size_bytes)

    def _follow_name(self) -> None:
        """Another process may have moved, removed or cut the file."""
        ours = os.fstat(self._fd)
        try:
            is_ours = os.path.samestat(self._path.stat(), ours)
        except FileNotFoundError:
            is_ours = False
        if is_ours:
            self._size_bytes = ours.st_size
        else:
            self._reopen()

    def _rotate(self) -> None:
        self._path.replace(self._path.with_name(self._path.name + ".1"))
        self._reopen()

    def _reopen(self) -> None:
        before = self._fd
        self._open()
        os.close(before)

    def _write(self, line: bytes) -> None:
        written = 0
        try:
            while written < len(line):
                written += os.write(self._fd, memoryview(line)[written:])
        except OSError:
            os.ftruncate(self._fd, self._size_bytes)
            raise
        self._size_bytes += written


def _end_of_last_line(fd: int) -> int:
    end = os.fstat(fd).st_size
    while end:
        start = max(0, end - _LOOK_BACK_BYTES)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
