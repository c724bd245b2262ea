"""The content of the state_file: the quotas that were set live. Text in, text out; no file is touched here.

    {"version": 1,
     "overrides": [{"user": "alice", "client_id": "report", "request_rate": 20}, ...]}

- The entries are like those of the config's `quotas`, `<default>` included.
- Reading is strict: a file with one mistake is refused as a whole, because applying half of the quotas would be
  unexpected. Another version is refused, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from policies.api import PolicyConfigError
from policies.quota.config import QuotaLine
from policies.validation import Problem, try_convert

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.quota.alter import Change
    from policies.quota.entity import QuotaEntity

VERSION: Final = 1
SETTING: Final = "state_file"


class _OverridesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    overrides: tuple[QuotaLine, ...]

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for each entity with two entries."""
        seen: set[QuotaEntity] = set()
        for place, line in enumerate(self.overrides):
            if line.entity in seen:
                yield Problem(f"overrides[{place}]", "found an entity that has an entry before")
            seen.add(line.entity)


def encode(overrides: Mapping[QuotaEntity, Mapping[str, float]]) -> bytes:
    """Return the file's content, readable for people; equal quotas give equal bytes."""
    entities = sorted(overrides, key=lambda each: (each.user or "", each.client_id or ""))
    lines = [
        QuotaLine(user=each.user, client_id=each.client_id, **overrides[each]).content()
        for each in entities
    ]
    content = {"version": VERSION, "overrides": lines}
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def decode(data: bytes) -> dict[QuotaEntity, dict[str, float]]:
    """Return the quotas by entity and key. Raises PolicyConfigError with every mistake."""
    try:
        content: object = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PolicyConfigError(SETTING, f"its content is not JSON: {error}") from error
    version = content.get("version") if isinstance(content, dict) else None
    if isinstance(version, int) and version != VERSION:
        words = f"its content has version {version}, expected {VERSION}: another Sluice wrote it"
        raise PolicyConfigError(SETTING, words)
    file, problems = try_convert(_OverridesFile, content)
    if file is None or problems:
        raise PolicyConfigError(SETTING, "its content: " + "; ".join(map(str, problems)))
    return {line.entity: dict(line.limits()) for line in file.overrides}


def apply_changes(
    overrides: Mapping[QuotaEntity, Mapping[str, float]], changes: Iterable[Change]
) -> dict[QuotaEntity, dict[str, float]]:
    """Return the overrides as they will be after `changes`."""
    after = {entity: dict(values) for entity, values in overrides.items()}
    for entity, key, value in changes:
        values = after.setdefault(entity, {})
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
        if not values:
            del after[entity]
    return after
