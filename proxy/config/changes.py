"""The differences between two configurations, and a hash of one.

A configuration that is shown has no secrets: where a policy's setting is named like one, a digest stands in its place.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from policies.registry import digests
from policies.validation import join_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy.config import Config

POLICIES: Final = "policies"
_SECRET: Final = re.compile(
    r"(password|secret|token|credential|private|api_?key)s?$", re.IGNORECASE
)
_ABSENT: Final = "nothing"


class ShownConfig(NamedTuple):
    """A configuration that may be shown, and a digest of each file that its policies come from or read."""

    settings: dict[str, object]
    files: dict[str, str]


class SettingChange(NamedTuple):
    """One difference. A policy is named by its entry: `policies[limits].config.required_acks`."""

    path: str
    before: str
    after: str


def changes(before: Config, after: Config) -> Iterator[str]:
    """Return the key paths that differ; the policies are one path, with the files that they have read."""
    compared = _compared(msgspec.to_builtins(before), msgspec.to_builtins(after), "")
    differing = sorted(path for path, _, _ in compared)
    yield from differing
    if POLICIES not in differing and digests(before.policies) != digests(after.policies):
        yield POLICIES


def hash_of(config: Config) -> str:
    """Return a hash of the settings and of files with quotas, equal for equal settings; it does not reveal them."""
    content = _sorted(msgspec.to_builtins((config, digests(config.policies))))
    return blake2b(msgspec.json.encode(content), digest_size=8).hexdigest()


def _sorted(value: object) -> object:
    """Return a value with mappings as sorted pairs; a policy's settings may have keys that are not text."""
    if isinstance(value, dict):
        return sorted(
            ((repr(key), _sorted(each)) for key, each in value.items()), key=itemgetter(0)
        )
    return [_sorted(each) for each in value] if isinstance(value, list | tuple) else value


def shown(config: Config) -> ShownConfig:
    """Return the settings as plain data without secrets."""
    settings = msgspec.to_builtins(config)
    return ShownConfig(_without_secrets(settings, ""), digests(config.policies))


def setting_changes(before: ShownConfig, after: ShownConfig) -> list[SettingChange]:
    """Return every difference; those of policies by entry, and a change of their order as one."""
    old, new = dict(before.settings), dict(after.settings)
    entries = [_by_name(each.pop(POLICIES, ())) for each in (old, new)]
    compared = list(_compared(old, new, ""))
    for name in dict.fromkeys((*entries[0], *entries[1])):
        compared += _compared(entries[0].get(name), entries[1].get(name), f"{POLICIES}[{name}]")
    found = [SettingChange(path, _text(one), _text(other)) for path, one, other in compared]
    kept = [
        [name for name in each if name in entries[0] and name in entries[1]] for each in entries
    ]
    if kept[0] != kept[1]:
        found.append(SettingChange(f"{POLICIES} (order)", *(", ".join(each) for each in kept)))
    found += (
        SettingChange(f"{POLICIES} (file {path})", "read before", "changed")
        for path in sorted(before.files.keys() & after.files.keys())
        if before.files[path] != after.files[path]
    )
    return found


def needs_restart(change: SettingChange, live: Iterable[str]) -> bool:
    """Return whether no reload applies this change. `live` are the key paths that may change live."""
    path = change.path.partition("[")[0].partition(" ")[0]
    return not any(path == each or path.startswith(f"{each}.") for each in live)


def _by_name(entries: object) -> dict[str, object]:
    listed = entries if isinstance(entries, list | tuple) else ()
    return {str(each["name"]): each for each in listed if isinstance(each, dict)}


def _compared(before: object, after: object, path: str) -> Iterator[tuple[str, object, object]]:
    """Yield the key path of each difference, with both values."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from _compared(before.get(key), after.get(key), join_path(path, str(key)))
    else:
        yield path, before, after


def _text(value: object) -> str:
    return _ABSENT if value is None else msgspec.json.encode(value).decode()


def _without_secrets(value: object, name: str) -> Any:  # noqa: ANN401 - the same kind of plain data as it gets
    if isinstance(value, dict):
        return {str(key): _without_secrets(each, str(key)) for key, each in value.items()}
    if value and _SECRET.search(name):
        digest = blake2b(msgspec.json.encode(_sorted(value)), digest_size=6).hexdigest()
        return f"(secret {digest})"
    if isinstance(value, list | tuple):
        return [_without_secrets(each, "") for each in value]
    return value
