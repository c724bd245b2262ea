"""A file of whole lines with a maximum size: the audit log and the trace file.

Rules:
- A line is written whole or not at all: a partial write is truncated, and so is what a crash left after the last
  newline when the file is opened again.
- At `max_bytes` the file is renamed to FILE.1 and a new one begins, so the disk holds twice `max_bytes` at most.
- Before each line the file checks that its name still refers to it. After a move or removal (logrotate) it begins a new
  file; after a truncation (copytruncate) it continues at the new end.
- One thread uses it and may block in it.
"""

from __future__ import annotations

import os
from pathlib import Path

_BLOCK_BYTES = 1 << 16


class RotatingFile:
    """A file for `append`. Opening it raises OSError."""

    def __init__(self, path: str | Path, max_bytes: int) -> None:
        self._path = Path(path)
        self._max_bytes = max_bytes
        self._open()

    def append(self, line: bytes) -> None:
        """Write a line, which ends with its newline. Raises OSError when nothing of it was written."""
        if is_at(self._path, self._fd):
            self._size_bytes = os.fstat(self._fd).st_size
        else:
            self._reopen()
        if self._size_bytes and self._size_bytes + len(line) > self._max_bytes:
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._reopen()
        append_whole(self._fd, line, self._size_bytes)
        self._size_bytes += len(line)

    def close(self) -> None:
        """Close the file; no line may follow."""
        os.close(self._fd)

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, 0o640)
        self._size_bytes = end_of_last_line(self._fd)
        os.ftruncate(self._fd, self._size_bytes)

    def _reopen(self) -> None:
        before = self._fd
        self._open()
        os.close(before)


def is_at(path: Path, descriptor: int) -> bool:
    """Return whether the open file is still the one at `path`, neither moved nor removed."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))


def append_whole(descriptor: int, data: bytes, size_bytes: int) -> None:
    """Write all of `data` at the end of a file of `size_bytes` that was opened with O_APPEND.

    Raises OSError if a write fails; the file is then truncated to `size_bytes`, unless that fails as well.
    """
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError:
        os.ftruncate(descriptor, size_bytes)
        raise


def end_of_last_line(descriptor: int) -> int:
    """Return the offset just after the last newline of a file; 0 if it has none."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - _BLOCK_BYTES)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
