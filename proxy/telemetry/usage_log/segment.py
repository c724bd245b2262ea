"""The file of one family that grows: hidden until it is whole, then fsynced and renamed in one step.

Rules:
- Only whole lines are in it when `append` returns: what could not be written to its end is cut off again.
- A file holds one day (UTC) of rows. It is closed by `rotate`, and never opened again.
- An advisory lock is held on it while its process lives, so that nobody adopts it meanwhile.
- Everything that touches the disk may raise OSError; then nothing but the rows in hand is lost.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from proxy.telemetry.usage_log.names import DAY_MS, FileName, day_of

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self


class Closed(NamedTuple):
    """A file that is whole."""

    path: Path
    size_bytes: int


class GrowingFile:
    """See the module. Made by `begin`."""

    def __init__(self, path: Path, name: FileName, descriptor: int, ts_ms: int) -> None:
        self.path = path
        self.size_bytes = 0
        self._name = name
        self._descriptor = descriptor
        self._ts_ms = ts_ms
        self._day = ts_ms // DAY_MS
        self._torn = False

    @classmethod
    def begin(cls, folder: Path, name: FileName, ts_ms: int) -> Self:
        """A new, empty file for rows from `ts_ms` on. `folder` is the family's."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name.hidden
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        with suppress(OSError):  # some file systems have no locks; then the instance's name must do
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return cls(path, name, descriptor, ts_ms)

    def has_room(self, ts_ms: int) -> bool:
        """Whether rows of that time belong into this file."""
        return ts_ms // DAY_MS == self._day

    @property
    def is_gone(self) -> bool:
        """Whether it was moved away or removed: what is written to it would never be shown."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return True
        return not os.path.samestat(found, os.fstat(self._descriptor))

    def abandon(self) -> None:
        """Close it as it is, wherever it is now."""
        os.close(self._descriptor)

    def append(self, lines: bytes) -> None:
        """Write whole lines, all or (then it raises OSError) none."""
        left = memoryview(lines)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            self._torn = True
            os.ftruncate(self._descriptor, self.size_bytes)
            os.lseek(self._descriptor, self.size_bytes, os.SEEK_SET)
            self._torn = False
            raise
        self.size_bytes += len(lines)

    def close(self) -> Closed:
        """It is whole: on the disk, and under its final name. An empty one is gone.

        One that could not be made whole, or not be renamed, stays hidden (see `orphans`): OSError.
        """
        try:
            if self._torn:
                raise OSError(f"half a line at the end of {self.path.name}")
            if not self.size_bytes:
                self.path.unlink()
                return Closed(self.path, 0)
            os.fsync(self._descriptor)
            return Closed(publish(self.path, self._name, self._ts_ms), self.size_bytes)
        finally:
            os.close(self._descriptor)


def publish(hidden: Path, name: FileName, ts_ms: int) -> Path:
    """Rename a file that is whole, and on the disk, to where readers look."""
    folder = hidden.parent / day_of(ts_ms)
    folder.mkdir(exist_ok=True)
    path = folder / name.closed
    hidden.rename(path)
    for each in (folder, hidden.parent):
        _sync_folder(each)
    return path


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
