"""Files that a process left hidden when it died: what is whole in them is kept, and shown.

Rules:
- Only this instance's, and only those that no living process holds locked (nor the caller names).
- A file is cut behind its last newline, fsynced and renamed; if nothing is left of it, it goes.
- Doing it twice, or dying in between, does no harm.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy.telemetry.usage_log.names import FileName, is_hidden, parse
from proxy.telemetry.usage_log.segment import publish

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

_BLOCK_BYTES: Final = 1 << 16
_HEAD_BYTES: Final = 1 << 16


class Adopted(NamedTuple):
    """What was found: `files` kept, `torn_bytes` of half lines cut off."""

    files: int = 0
    torn_bytes: int = 0


class _Time(msgspec.Struct):
    ts_ms: int


def adopt(directory: Path, instance: str, but: Collection[Path] = ()) -> Adopted:
    """Take in what earlier processes of this instance left. `instance` as it stands in file names.

    Raises OSError.
    """
    files = torn_bytes = 0
    for path in sorted(directory.glob("*/.*")):
        name = parse(path.name)
        if name is None or name.instance != instance or not is_hidden(path) or path in but:
            continue
        cut_bytes = _adopt_one(path, name)
        if cut_bytes is not None:
            files += 1
            torn_bytes += cut_bytes
    return Adopted(files, torn_bytes)


def _adopt_one(path: Path, name: FileName) -> int | None:
    """How many bytes had to go; None: it is not ours to take."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None  # somebody was quicker
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None  # its process lives
        except OSError:
            pass  # no locks here: its name says that it is ours
        size_bytes = os.fstat(descriptor).st_size
        whole_bytes = _whole_bytes(descriptor, size_bytes)
        if whole_bytes:
            ts_ms = _ts_ms(descriptor)
            os.ftruncate(descriptor, whole_bytes)
            os.fsync(descriptor)
            publish(path, name, ts_ms)
        else:
            path.unlink()
        return size_bytes - whole_bytes
    finally:
        os.close(descriptor)


def _whole_bytes(descriptor: int, size_bytes: int) -> int:
    """Up to and with the last newline."""
    at = size_bytes
    while at > 0:
        begin = max(0, at - _BLOCK_BYTES)
        found = os.pread(descriptor, at - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        at = begin
    return 0


def _ts_ms(descriptor: int) -> int:
    """When its first row is of; where that cannot be read, when it was last written."""
    first = os.pread(descriptor, _HEAD_BYTES, 0).partition(b"\n")[0]
    try:
        return msgspec.json.decode(first, type=_Time).ts_ms
    except msgspec.DecodeError:
        return os.fstat(descriptor).st_mtime_ns // 1_000_000
