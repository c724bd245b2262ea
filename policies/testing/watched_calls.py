"""Watches what the hooks of a policy call and keep."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

    from policies.api import Policy

_OUTSIDE: Final = frozenset(
    {"time", "_thread", "_socket", "socket", "select", "_random", "subprocess"}
)
"""Modules whose functions a hook must not call: it reads no clock, starts no thread and does no I/O."""
_OUTSIDE_CALLS: Final = frozenset(
    {"open", "open_code", "now", "utcnow", "today", "urandom", "print"}
)


class WatchedCalls:
    """Collects calls that leave the process or read its clock, made by code outside the bench's own modules."""

    def __init__(self, caught: list[str]) -> None:
        self._caught = caught

    def __enter__(self) -> None:
        self._before, self._collects = sys.getprofile(), gc.isenabled()
        gc.disable()  # it would call finalizers and others' callbacks here
        sys.setprofile(self._on_event)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)
        if self._collects:
            gc.enable()

    def _on_event(self, frame: FrameType, event: str, function: object) -> None:
        if event != "c_call":
            return
        name = getattr(function, "__name__", "")
        if getattr(function, "__module__", "") in _OUTSIDE or name in _OUTSIDE_CALLS:
            self._caught.append(f"{name} ({frame.f_globals.get('__name__')}:{frame.f_lineno})")


def reachable_objects(policy: Policy) -> int:
    """Return the number of items in the containers that the policy's attributes lead to, its host left out."""
    seen: set[int] = {id(policy.host), id(policy.config)}
    waiting: list[object] = [vars(policy)]
    count = 0
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type) or callable(each):
            continue
        seen.add(id(each))
        count += 1
        if isinstance(each, Mapping):
            waiting += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple | set | frozenset):
            waiting += each
        elif hasattr(each, "__dict__"):
            waiting.append(vars(each))
        for slot in getattr(type(each), "__slots__", ()):
            waiting.append(getattr(each, slot, None))
    return count
