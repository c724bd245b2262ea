"""The result of one run of `ingest`: files, rows, and everything that is missing or was refused."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from policies.escaping import escaped


@dataclass
class Summary:
    """The figures of one run; `lost_rows`, `gaps`, `clock_jumps` and `overlaps` are those of the tables as a whole."""

    files_read: int = 0
    bytes_read: int = 0
    files_known: int = 0
    files_ignored: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    rows_added: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, dict[str, int]] = field(default_factory=dict)
    duplicates: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    lost_rows: dict[str, int] = field(default_factory=dict)
    gaps: int = 0
    clock_jumps: list[str] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)

    def quarantine(self, reason: str, family: str, lines: int) -> None:
        """Add lines that were refused."""
        families = self.quarantined.setdefault(reason, {})
        families[family] = families.get(family, 0) + lines

    def see(self, first_ms: int, last_ms: int) -> None:
        """Widen the span of time."""
        self.first_ms = first_ms if self.first_ms is None else min(self.first_ms, first_ms)
        self.last_ms = last_ms if self.last_ms is None else max(self.last_ms, last_ms)

    def as_json(self) -> dict[str, object]:
        """Return all figures."""
        return asdict(self)

    def text(self) -> str:
        """Return the figures as lines for a person."""
        lines = [
            (
                f"files: {self.files_read:,} read ({self.bytes_read / 1e6:,.1f} MB), "
                f"{self.files_known:,} known before, {self.files_ignored:,} outside FAMILY/dt=DAY/"
            ),
        ]
        lines += [f"unreadable: {path}: {why}" for path, why in self.unreadable.items()]
        for family, rows in self.rows_added.items():
            lines.append(f"{family}: {self.lines[family]:,} lines, {rows:,} rows added")
        if self.first_ms is not None and self.last_ms is not None:
            lines.append(f"time: {as_time(self.first_ms)} to {as_time(self.last_ms)} UTC")
        lines.append(f"duplicates: {self.duplicates:,} rows")
        for reason, families in sorted(self.quarantined.items()):
            each = ", ".join(f"{family} {count:,}" for family, count in sorted(families.items()))
            lines.append(f"quarantined, {reason}: {sum(families.values()):,} lines ({each})")
        each = ", ".join(f"{family} {count:,}" for family, count in sorted(self.lost_rows.items()))
        lost = sum(self.lost_rows.values())
        lines.append(f"lost: {lost:,} rows in {self.gaps:,} gaps" + (f" ({each})" if each else ""))
        return "\n".join(map(escaped, [*lines, *self.clock_jumps, *self.overlaps]))


def as_time(ms: int) -> str:
    """Return a time as text, UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
