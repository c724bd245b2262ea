"""One segment of the usage log: a file of rows, hidden while it grows, fsynced and renamed when it is closed.

An open segment is `entity/.entity-INSTANCE-BOOT-000001.jsonl.open`: Spark and `ls` skip names with a leading dot.
A closed one is `entity/dt=2026-11-21/entity-INSTANCE-BOOT-000001.jsonl`.

Rules:
- After `append` a segment ends with a whole line: a partial write is truncated.
- A segment holds rows of one day (UTC). `close` ends it; it is never opened for writing again.
- A process holds an advisory lock on its open segments, so that another one does not recover them.
- Every method that touches the disk may raise OSError; then only the rows in hand are lost.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.telemetry.rotating_file import append_whole

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS: Final = 86_400_000
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_MAX_INSTANCE_CHARS: Final = 128
_NAME: Final = re.compile(
    r"(?P<family>[a-z]+)-(?P<instance>.+)-(?P<boot>[0-9a-f]{16})-(?P<number>\d{6,})\.jsonl"
)
_OPEN_SUFFIX: Final = ".open"


class SegmentName(NamedTuple):
    """The parts of a segment's file name; `number` counts a family's segments since the process began."""

    family: str
    instance: str
    boot: str
    number: int

    @property
    def closed(self) -> str:
        """Return the file name of the closed segment."""
        return f"{self.family}-{self.instance}-{self.boot}-{self.number:06d}.jsonl"

    @property
    def hidden(self) -> str:
        """Return the file name of the open segment."""
        return f".{self.closed}{_OPEN_SUFFIX}"


def parse_name(name: str) -> SegmentName | None:
    """Return the parts of a segment's file name, open or closed; None if it is no segment."""
    if name.startswith(".") and name.endswith(_OPEN_SUFFIX):
        name = name[1 : -len(_OPEN_SUFFIX)]
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return SegmentName(found["family"], found["instance"], found["boot"], int(found["number"]))


def file_safe(instance: str) -> str:
    """Return an instance's name as file names carry it; the rows carry it unchanged."""
    return _UNSAFE.sub("_", instance)[:_MAX_INSTANCE_CHARS] or "_"


def new_boot(now_ms: int) -> str:
    """Return an id for this start of the process; ids of later starts sort after it."""
    return f"{now_ms & 0xFFF_FFFF_FFFF:011x}{secrets.randbits(20):05x}"


def day_folder(ts_ms: int) -> str:
    """Return the folder name of the day (UTC) of a time in milliseconds."""
    day = datetime.fromtimestamp(ts_ms // DAY_MS * 86_400, UTC)
    return f"dt={day:%Y-%m-%d}"


class Segment:
    """A new, empty segment in the family's `folder`, for the day of `ts_ms`. Creating it raises OSError."""

    def __init__(self, folder: Path, name: SegmentName, ts_ms: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / name.hidden
        self.size_bytes = 0
        self._name = name
        self._ts_ms = ts_ms
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(self.path, flags, 0o640)
        self._file = os.fstat(self._descriptor)
        with suppress(OSError):  # a file system without locks: the instance's name must be unique
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def accepts(self, ts_ms: int) -> bool:
        """Return whether rows of that time belong in this segment."""
        return ts_ms // DAY_MS == self._ts_ms // DAY_MS

    @property
    def is_gone(self) -> bool:
        """Return whether another process moved or removed the file: readers would never see its rows."""
        try:
            return not os.path.samestat(self.path.stat(), self._file)
        except FileNotFoundError:
            return True

    def append(self, lines: bytes) -> None:
        """Write whole lines, all of them or, with an OSError, none."""
        append_whole(self._descriptor, lines, self.size_bytes)
        self.size_bytes += len(lines)

    def abandon(self) -> None:
        """Close the file as it is, wherever it is now."""
        os.close(self._descriptor)

    def close(self) -> int:
        """Fsync and rename the file, or delete it if it is empty; return its size in bytes.

        Raises OSError if that fails or the file ends in half a line; it then stays hidden until `recovery`.
        """
        try:
            if os.fstat(self._descriptor).st_size != self.size_bytes:
                raise OSError(f"{self.path.name} ends with an incomplete line")
            if self.size_bytes:
                os.fsync(self._descriptor)
                rename_closed(self.path, self._name, self._ts_ms)
            else:
                self.path.unlink()
            return self.size_bytes
        finally:
            os.close(self._descriptor)


def rename_closed(path: Path, name: SegmentName, ts_ms: int) -> None:
    """Move a whole, fsynced segment to its closed name in the folder of its day. Raises OSError."""
    folder = path.parent / day_folder(ts_ms)
    folder.mkdir(exist_ok=True)
    path.rename(folder / name.closed)
    for each in (folder, path.parent):
        descriptor = os.open(each, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
