"""All segments of one instance: they rotate by age, size and day, and the oldest are deleted.

Rules:
- No clock and no thread: times are arguments, and one thread calls.
- `write` never raises: rows that the disk refuses are counted in `dropped`, and their `seq` is missing.
- A segment is closed `rotate_ms` after its first row, at `rotate_bytes`, and at the end of its day (UTC). One that was
  removed is replaced with the next rows.
- Only segments of this instance count and are deleted. Before a deletion the directory is scanned again, so what other
  processes took away makes room; then a sixteenth more is deleted, so that not every new segment costs a scan.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from proxy.telemetry.usage_log.recovery import Recovered, recover
from proxy.telemetry.usage_log.segment import Segment, SegmentName, file_safe, parse_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from proxy.telemetry.usage_log.rows import Row


class Retention:
    """Keeps the segments of `instance` within `keep_bytes`. `closed_bytes` is an upper bound until the next scan."""

    def __init__(self, directory: Path, instance: str, keep_bytes: int) -> None:
        self.deleted = 0
        self.closed_bytes = 0
        self._directory = directory
        self._instance = instance
        self._keep_bytes = keep_bytes
        self._segments: list[tuple[int, Path, int]] = []  # time of the last write, path, size

    def scan(self) -> None:
        """Read from the directory which closed segments there are."""
        segments = []
        for path in self._directory.glob("*/dt=*/*.jsonl"):
            name = parse_name(path.name)
            if name is None or name.instance != self._instance:
                continue
            with suppress(FileNotFoundError):
                found = path.stat()
                segments.append((found.st_mtime_ns, path, found.st_size))
        self._segments = sorted(segments)
        self.closed_bytes = sum(size_bytes for _, _, size_bytes in segments)

    def make_room(self, open_bytes: int) -> None:
        """Delete the oldest segments if all of them, with `open_bytes` of open ones, exceed `keep_bytes`."""
        if self.closed_bytes + open_bytes <= self._keep_bytes:
            return
        self.scan()
        if self.closed_bytes + open_bytes <= self._keep_bytes:
            return
        target_bytes = self._keep_bytes - self._keep_bytes // 16 - open_bytes
        for _, path, size_bytes in self._segments:
            if self.closed_bytes <= target_bytes:
                break
            try:
                path.unlink()
            except FileNotFoundError:
                pass
            except OSError:
                continue  # it stays and counts
            else:
                self.deleted += 1
            self.closed_bytes -= size_bytes
            with suppress(OSError):  # other segments of that day
                path.parent.rmdir()


class SegmentWriter:
    """Writes rows into the open segment of their family. Call `open` first. `fault` is the error of the last write."""

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
        # All open segments together may take half of `keep_bytes`.
        self._rotate_bytes = min(rotate_bytes, keep_bytes // 2 // families)
        self._retention = Retention(directory, self._instance, keep_bytes)
        self._open: dict[str, Segment] = {}
        self._due_ms: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._must_recover = False  # one of our segments stayed open after its rotation
        self._encode_lines = msgspec.json.Encoder().encode_lines

    @property
    def deleted(self) -> int:
        """Return how many segments were deleted for room."""
        return self._retention.deleted

    def open(self) -> Recovered:
        """Make the directory and recover what an earlier process left open. Raises OSError."""
        self._directory.mkdir(parents=True, exist_ok=True)
        recovered = recover(self._directory, self._instance)
        self._retention.scan()
        self._retention.make_room(0)
        return recovered

    def write(self, family: str, rows: Sequence[Row], now_ms: int) -> bytes:
        """Append the rows in their order; return them as lines, whether or not the disk took them."""
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
        """Close the segments whose time is over."""
        for family in [each for each, due_ms in self._due_ms.items() if due_ms <= now_ms]:
            self._rotate(family)
        if self._must_recover:
            self._must_recover = False
            try:
                recover(
                    self._directory, self._instance, {each.path for each in self._open.values()}
                )
            except OSError as error:
                self._must_recover, self.fault = True, error

    def next_tick_ms(self) -> int | None:
        """Return when to call `tick` next; None while no segment is open."""
        return min(self._due_ms.values(), default=None)

    def close(self) -> None:
        """Close every segment. Later rows begin new ones."""
        for family in list(self._open):
            self._rotate(family)

    def _append(self, family: str, lines: bytes, ts_ms: int, now_ms: int) -> None:
        segment = self._open.get(family)
        if segment is not None and (segment.is_gone or not segment.accepts(ts_ms)):
            self._rotate(family)
            segment = None
        if segment is None:
            number = self._numbers[family] = self._numbers.get(family, 0) + 1
            name = SegmentName(family, self._instance, self._boot, number)
            segment = self._open[family] = Segment(self._directory / family, name, ts_ms)
            self._due_ms[family] = now_ms + self._rotate_ms
        try:
            segment.append(lines)
        except OSError:
            self._rotate(family)  # a new file may fare better
            raise
        if segment.size_bytes >= self._rotate_bytes:
            self._rotate(family)
        self._retention.make_room(sum(each.size_bytes for each in self._open.values()))

    def _rotate(self, family: str) -> None:
        segment = self._open.pop(family)
        del self._due_ms[family]
        try:
            if segment.is_gone:
                segment.abandon()
            else:
                self._retention.closed_bytes += segment.close()
        except OSError as error:
            self._must_recover, self.fault = True, error
