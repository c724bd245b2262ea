"""The key that a policy holds a request for, made safe: to compare and to print it runs no code that may raise.

A policy chooses its keys freely, so their `__hash__`, `__eq__` and `__str__` are a policy's code, and the purgatory
runs them for other requests than the one that the key belongs to. Keys of built-in kinds stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

_BUILT_IN: Final = frozenset((str, int, bytes, bool, float, type(None)))
_SHOWN_CHARACTERS: Final = 249


class WatchKey:
    """A key of a policy's own kind. It equals what the key equals; a comparison that raises is False."""

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
    """Return the key that the purgatory watches. Whatever the key's own `__hash__` raises, it raises here."""
    kind = type(key)
    if kind in _BUILT_IN or (kind.__hash__ is object.__hash__ and kind.__eq__ is object.__eq__):
        return key
    return WatchKey(key)


def held_key(key: Hashable, held: Hashable) -> Hashable:
    """Return the key under which `held` waits. A key that could be hashed a moment ago and cannot be now wakes
    nothing: `held` stands in its place, and its deadline ends the wait.
    """
    try:
        return watch_key(key)
    except BaseException:  # noqa: BLE001 - a policy's own code
        return held


def text_of(key: Hashable) -> str:
    """Return `str(key)` for traces, or what is wrong with it."""
    try:
        text = str(key)
    except BaseException as error:  # noqa: BLE001 - a policy's own code
        return f"a {type(key).__name__} whose str raises {type(error).__name__}"
    return text[:_SHOWN_CHARACTERS]
