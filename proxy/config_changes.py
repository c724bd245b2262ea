"""The differences between two configurations, and a hash of one."""

from __future__ import annotations

import hashlib
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import msgspec

from policies.registry import digests
from policies.validation import join_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.config import Config

POLICIES: Final = "policies"


def changes(before: Config, after: Config) -> Iterator[str]:
    """Return the key paths that differ; the policies are one path, with the files that they have read."""
    differing = list(_differing(msgspec.to_builtins(before), msgspec.to_builtins(after), ""))
    yield from differing
    if POLICIES not in differing and digests(before.policies) != digests(after.policies):
        yield POLICIES


def hash_of(config: Config) -> str:
    """Return a hash of the settings and of files with quotas, equal for equal settings; it does not reveal them."""
    content = _sorted(msgspec.to_builtins((config, digests(config.policies))))
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:16]


def _sorted(value: object) -> object:
    """Return a value with mappings as sorted pairs; a policy's settings may have keys that are not text."""
    if isinstance(value, dict):
        return sorted(
            ((repr(key), _sorted(each)) for key, each in value.items()), key=itemgetter(0)
        )
    return [_sorted(each) for each in value] if isinstance(value, list | tuple) else value


def _differing(before: object, after: object, path: str) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys(), key=str):
            yield from _differing(before.get(key), after.get(key), join_path(path, str(key)))
    else:
        yield path
