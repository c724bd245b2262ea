"""Wraps the keys under which policies hold requests, so that comparing and printing them never raises.

A policy chooses its keys freely, so their `__hash__`, `__eq__` and `__str__` are the policy's code, and the purgatory
also runs them for requests that the key does not belong to. Keys of built-in types are not wrapped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

_BUILT_IN: Final = frozenset((str, int, bytes, bool, float, type(None)))
_SHOWN_CHARACTERS: Final = 249


class WatchKey:
    """Wraps a key of a policy's own class. It compares as the key does; a comparison that raises is False."""

    __slots__ = ("_hash", "key")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self._hash = hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        theirs = other.key if isinstance(other, WatchKey) else other
        if self.key is theirs:
            return True
        try:
            return bool(self.key == theirs)
        except BaseException:  # noqa: BLE001 - a policy's own code, asked for another request
            return False


def watch_key(key: Hashable) -> Hashable:
    """Return the key that the purgatory watches. Raises any exception that the key's own `__hash__` raises."""
    kind = type(key)
    if kind in _BUILT_IN or (kind.__hash__ is object.__hash__ and kind.__eq__ is object.__eq__):
        return key
    return WatchKey(key)


def held_key(key: Hashable, held: Hashable) -> Hashable:
    """Return the key under which `held` waits. If the key can no longer be hashed, return `held` itself: no wake
    reaches it, and its deadline ends the wait.
    """
    try:
        return watch_key(key)
    except BaseException:  # noqa: BLE001 - a policy's own code
        return held


def text_of(key: Hashable) -> str:
    """Return `str(key)` for traces, at most 249 characters; if it raises, a text that names the exception."""
    try:
        text = str(key)
    except BaseException as error:  # noqa: BLE001 - a policy's own code
        return f"a {type(key).__name__} whose str raises {type(error).__name__}"
    return text[:_SHOWN_CHARACTERS]
