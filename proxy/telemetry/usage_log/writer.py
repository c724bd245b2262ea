"""Rows in, files out: every family's growing file, its rotation, and the room all of them take.

Rules:
- No clock and no thread: the times come in as arguments. It belongs to one thread.
- `write` never raises: rows that the disk did not take are counted in `dropped`, and their `seq` is missed.
- A growing file that was removed is begun again with the next rows: nothing is written where no reader looks.
- A file is closed `rotate_ms` after it was begun, at `rotate_bytes`, and at the end of its day (UTC).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy.telemetry.usage_log.names import FileName, file_safe
from proxy.telemetry.usage_log.recovery import Adopted, adopt
from proxy.telemetry.usage_log.retention import Shelf
from proxy.telemetry.usage_log.segment import Closed, GrowingFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from proxy.telemetry.usage_log.rows import Row


class Writer:
    """See the module. `open` it before the first row. `fault`: the disk's complaint, until it takes rows again."""

    def __init__(
        self,
        directory: Path,
        instance: str,
        boot: str,
        *,
        rotate_ms: int = 60_000,
        rotate_bytes: int = 16 << 20,
        keep_bytes: int = 1 << 30,
        families: int = 1,
    ) -> None:
        self.dropped = 0
        self.fault: OSError | None = None
        self._directory = directory
        self._instance = file_safe(instance)
        self._boot = boot
        self._rotate_ms = rotate_ms
        # Growing files count, too: all of them at once shall take no more than half of the room.
        self._rotate_bytes = min(rotate_bytes, keep_bytes // 2 // families)
        self._shelf = Shelf(directory, self._instance, keep_bytes)
        self._growing: dict[str, GrowingFile] = {}
        self._due_ms: dict[str, int] = {}
        self._places: dict[str, int] = {}
        self._left_behind = False  # a hidden file of ours that nobody writes any more
        self._encode_lines = msgspec.json.Encoder().encode_lines

    @property
    def deleted(self) -> int:
        """Files that went because there was no room."""
        return self._shelf.deleted

    def open(self) -> Adopted:
        """Make the directory and take in what an earlier process left. Raises OSError."""
        self._directory.mkdir(parents=True, exist_ok=True)
        adopted = adopt(self._directory, self._instance)
        self._shelf.look()
        self._shelf.make_room(0)
        return adopted

    def write(self, family: str, rows: Sequence[Row], now_ms: int) -> bytes:
        """Append the rows, in their order. The lines, whether the disk took them or not."""
        if not rows:
            return b""
        lines = self._encode_lines(rows)
        try:
            self._append(family, lines, rows[0].ts_ms, now_ms)
        except OSError as error:
            self.dropped += len(rows)
            self.fault = error
        else:
            self.fault = None
        return lines

    def tick(self, now_ms: int) -> None:
        """Close what has grown for long enough."""
        for family in [each for each, due_ms in self._due_ms.items() if due_ms <= now_ms]:
            self._rotate(family)
        if self._left_behind:
            self._left_behind = False
            try:
                adopt(self._directory, self._instance, {g.path for g in self._growing.values()})
            except OSError as error:
                self._left_behind, self.fault = True, error

    def next_ms(self) -> int | None:
        """When to `tick` next; None: nothing grows."""
        return min(self._due_ms.values(), default=None)

    def close(self) -> None:
        """Close every file. Rows that come later begin new ones."""
        for family in list(self._growing):
            self._rotate(family)

    def _append(self, family: str, lines: bytes, ts_ms: int, now_ms: int) -> None:
        growing = self._growing.get(family)
        if growing is not None and (growing.is_gone or not growing.has_room(ts_ms)):
            self._rotate(family)
            growing = None
        if growing is None:
            growing = self._begin(family, ts_ms, now_ms)
        try:
            growing.append(lines)
        except OSError:
            self._rotate(family)  # a fresh file may fare better
            raise
        if growing.size_bytes >= self._rotate_bytes:
            self._rotate(family)
        self._shelf.make_room(sum(each.size_bytes for each in self._growing.values()))

    def _begin(self, family: str, ts_ms: int, now_ms: int) -> GrowingFile:
        place = self._places[family] = self._places.get(family, 0) + 1
        name = FileName(family, self._instance, self._boot, place)
        growing = GrowingFile.begin(self._directory / family, name, ts_ms)
        self._growing[family] = growing
        self._due_ms[family] = now_ms + self._rotate_ms
        return growing

    def _rotate(self, family: str) -> None:
        growing = self._growing.pop(family)
        self._due_ms.pop(family, None)
        try:
            if growing.is_gone:
                growing.abandon()
                return
            closed: Closed = growing.close()
        except OSError as error:  # it stays hidden until it is adopted
            self._left_behind, self.fault = True, error
        else:
            self._shelf.add(closed.size_bytes)
