"""How record files are called, and how to tell one's own from everybody else's.

While it grows: `entity/.entity-INSTANCE-BOOT-000001.jsonl.open`. The leading dot hides it from Spark and from
`ls`; a name that only ended in something would be read half written.
Closed: `entity/dt=2026-11-21/entity-INSTANCE-BOOT-000001.jsonl`.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")
_CLOSED: Final = re.compile(
    r"(?P<family>[a-z]+)-(?P<instance>.+)-(?P<boot>[0-9a-f]{16})-(?P<place>\d{6,})\.jsonl"
)
_OPEN_ENDS: Final = ".open"
DAY_MS: Final = 86_400_000
_INSTANCE_MOST_CHARS: Final = 128


class FileName(NamedTuple):
    """One record file; `place` counts a family's files since the process began."""

    family: str
    instance: str
    boot: str
    place: int

    @property
    def closed(self) -> str:
        """As it is called when it is whole."""
        return f"{self.family}-{self.instance}-{self.boot}-{self.place:06d}.jsonl"

    @property
    def hidden(self) -> str:
        """As it is called while it grows."""
        return f".{self.closed}{_OPEN_ENDS}"


def parse(name: str) -> FileName | None:
    """What a file's name says, hidden or closed; None if it is no record file."""
    if name.startswith(".") and name.endswith(_OPEN_ENDS):
        name = name[1 : -len(_OPEN_ENDS)]
    found = _CLOSED.fullmatch(name)
    if found is None:
        return None
    return FileName(found["family"], found["instance"], found["boot"], int(found["place"]))


def is_hidden(path: Path) -> bool:
    """Whether it is a file that grows, or grew when its process died."""
    return path.name.startswith(".") and path.name.endswith(_OPEN_ENDS)


def file_safe(instance: str) -> str:
    """An instance's name as it stands in file names; the rows have it unchanged."""
    return _ODD.sub("_", instance)[:_INSTANCE_MOST_CHARS] or "_"


def new_boot(now_ms: int) -> str:
    """A name for this start of this process; later ones sort behind it."""
    return f"{now_ms & 0xFFF_FFFF_FFFF:011x}{secrets.randbits(20):05x}"


def day_of(ts_ms: int) -> str:
    """The folder of the day, in UTC."""
    day = datetime.fromtimestamp(ts_ms // DAY_MS * 86_400, UTC)
    return f"dt={day:%Y-%m-%d}"
