"""The closed files of one instance, and how much room they may take: beyond it the oldest go.

Rules:
- Only files that this instance has written are counted and deleted, of whichever start of it.
- What others took away (compacted, moved) is noticed by looking again before anything is deleted.
- When there is too much, a sixteenth more goes than has to, so that not every new file costs a look.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from proxy.telemetry.usage_log.names import is_hidden, parse

if TYPE_CHECKING:
    from pathlib import Path


class Shelf:
    """See the module. `deleted` counts files; `closed_bytes` is an upper bound until the next look."""

    def __init__(self, directory: Path, instance: str, keep_bytes: int) -> None:
        self.deleted = 0
        self.closed_bytes = 0
        self._directory = directory
        self._instance = instance
        self._keep_bytes = keep_bytes
        self._files: list[tuple[int, Path, int]] = []  # when written, where, how large

    def look(self) -> None:
        """See what is really there."""
        files = []
        for path in self._directory.glob("*/dt=*/*.jsonl"):
            name = parse(path.name)
            if name is None or name.instance != self._instance or is_hidden(path):
                continue
            with suppress(FileNotFoundError):
                found = path.stat()
                files.append((found.st_mtime_ns, path, found.st_size))
        self._files = sorted(files)
        self.closed_bytes = sum(size_bytes for _, _, size_bytes in files)

    def add(self, size_bytes: int) -> None:
        """A file was closed."""
        self.closed_bytes += size_bytes

    def make_room(self, open_bytes: int) -> None:
        """Delete the oldest, if all together with the `open_bytes` of growing files is too much."""
        if self.closed_bytes + open_bytes <= self._keep_bytes:
            return
        self.look()
        if self.closed_bytes + open_bytes <= self._keep_bytes:
            return
        target_bytes = self._keep_bytes - self._keep_bytes // 16 - open_bytes
        for _, path, size_bytes in self._files:
            if self.closed_bytes <= target_bytes:
                break
            try:
                path.unlink()
            except FileNotFoundError:
                pass
            except OSError:
                continue  # it stays, and counts
            else:
                self.deleted += 1
            self.closed_bytes -= size_bytes
            with suppress(OSError):  # usually there is more of that day
                path.parent.rmdir()
