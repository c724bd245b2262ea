"""The result of one run of `ingest`: files, rows, and everything that is missing or was refused."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

from policies.escaping import escaped


@dataclass
class Summary:
    """The figures of one run; `lost_rows`, `gaps`, `clock_jumps` and `overlaps` are those of the tables as a whole."""

    files_read: int = 0
    bytes_read: int = 0
    files_known: int = 0
    files_ignored: int = 0
    files_aged: int = 0
    """Files of days that `maintain` has deleted and that are not read again."""
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

    def add(self, figures: Mapping[str, Any]) -> None:
        """Add the figures of a batch."""
        for mine, its in ((self.lines, "lines"), (self.rows_added, "rows_added")):
            _add(mine, figures.get(its) or {})
        for reason, families in (figures.get("quarantined") or {}).items():
            _add(self.quarantined.setdefault(reason, {}), families)
        self.duplicates += figures.get("duplicates") or 0
        for name, outer in (("first_ms", min), ("last_ms", max)):
            both = [
                at_ms for at_ms in (getattr(self, name), figures.get(name)) if at_ms is not None
            ]
            setattr(self, name, outer(both, default=None))

    def see(self, figures: Mapping[str, Any]) -> None:
        """Take what is missing or strange in the tables from the figures of the last batch."""
        self.lost_rows = dict(figures.get("lost_rows") or {})
        self.gaps = sum((figures.get("gaps") or {}).values())
        self.clock_jumps = list(figures.get("clock_jumps") or ())
        self.overlaps = list(figures.get("overlaps") or ())

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
        if self.files_aged:
            lines.append(f"too old: {self.files_aged:,} files of days that maintain has deleted")
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


def _add(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count


def as_time(ms: int) -> str:
    """Return a time as text, UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
