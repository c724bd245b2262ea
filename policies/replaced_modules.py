"""The modules of policies that were loaded again because their files have changed.

A module is a cycle: its functions refer to it. So an old one stays in memory until the collector has found it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import ref

if TYPE_CHECKING:
    from types import ModuleType

_replaced: Final[list[ref[ModuleType]]] = []


def note_replaced(module: ModuleType) -> None:
    """Note that no configuration will use this module again."""
    _replaced.append(ref(module))


def any_left() -> bool:
    """Return whether a replaced module is still in memory: a policy that serves may have come from it."""
    for each in tuple(_replaced):  # a thread may add another one
        if each() is None:
            _replaced.remove(each)
    return bool(_replaced)
