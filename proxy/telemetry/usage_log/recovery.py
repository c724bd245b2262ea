"""Recovery of segments that a process left open when it died: their whole lines are kept and shown.

Rules:
- It takes segments of this instance only, and none that a living process has locked or that the caller excludes.
- A segment is truncated after its last newline, fsynced and renamed; an empty one is deleted.
- It is idempotent: to run it twice, or to die in the middle, does no harm.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy.telemetry.rotating_file import end_of_last_line
from proxy.telemetry.usage_log.segment import SegmentName, parse_name, rename_closed

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

_HEAD_BYTES: Final = 1 << 16


class Recovered(NamedTuple):
    """How many segments were recovered, and how many bytes of half lines were cut off."""

    files: int = 0
    torn_bytes: int = 0


class _Time(msgspec.Struct):
    ts_ms: int


def recover(directory: Path, instance: str, exclude: Collection[Path] = ()) -> Recovered:
    """Close the segments that earlier processes of `instance` (as in file names) left open. Raises OSError."""
    files = torn_bytes = 0
    for path in sorted(directory.glob("*/.*")):
        name = parse_name(path.name)
        if name is None or name.instance != instance or path in exclude:
            continue
        cut_bytes = _recover_one(path, name)
        if cut_bytes is not None:
            files += 1
            torn_bytes += cut_bytes
    return Recovered(files, torn_bytes)


def _recover_one(path: Path, name: SegmentName) -> int | None:
    """Return how many bytes were cut off; None if another process has or had the segment."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None  # another process recovered it first
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None  # its process lives
        except OSError:
            pass  # a file system without locks: the instance's name decides
        size_bytes = os.fstat(descriptor).st_size
        whole_bytes = end_of_last_line(descriptor)
        if whole_bytes:
            ts_ms = _first_ts_ms(descriptor)
            os.ftruncate(descriptor, whole_bytes)
            os.fsync(descriptor)
            rename_closed(path, name, ts_ms)
        else:
            path.unlink()
        return size_bytes - whole_bytes
    finally:
        os.close(descriptor)


def _first_ts_ms(descriptor: int) -> int:
    """Return the time of the first row, or of the last write if that row cannot be read."""
    first = os.pread(descriptor, _HEAD_BYTES, 0).partition(b"\n")[0]
    try:
        return msgspec.json.decode(first, type=_Time).ts_ms
    except (msgspec.DecodeError, RecursionError):
        return os.fstat(descriptor).st_mtime_ns // 1_000_000
