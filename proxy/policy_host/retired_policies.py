"""Policies that a reload has replaced, until nothing of them is left in memory.

Rules:
- The requests that they have judged end with their hooks, and may need their alarms. The chain's lease tells when the
  last of them has ended: it is checked every CHECK_MS. Then the alarms are given up.
- Sluice's own policies and the chain have no cycles, so they are gone at once then. A plug-in may have cycles, and the
  module of a changed file is one: if something is left, the collector runs once, between two requests. With 10,000
  idle connections that takes 17 ms.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import ref

from policies.hooks import give_up_alarms
from policies.plugin_sources import any_left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policies.api import Policy
    from policies.hooks import Entry, Lease
    from proxy.core.purgatory.timers import Timers

CHECK_MS: Final = 1000


class _Retired(NamedTuple):
    """The entries of one chain, and its lease."""

    entries: tuple[Entry, ...]
    lease: ref[Lease]


class RetiredPolicies:
    """Watches replaced policies. `collect` runs the garbage collector."""

    def __init__(self, timers: Timers, collect: Callable[[], object] = gc.collect) -> None:
        self._timers = timers
        self._collect = collect
        self._waiting: list[_Retired] = []
        self._is_scheduled = False

    def add(self, entries: Iterable[Entry], lease: Lease, now_ms: int) -> None:
        """Watch these entries, which a reload has just replaced."""
        self._waiting.append(_Retired(tuple(entries), ref(lease)))
        self._schedule_check(now_ms)

    def _schedule_check(self, now_ms: int) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._timers.arm(now_ms + CHECK_MS, self._check)

    def _check(self, now_ms: int) -> None:
        self._is_scheduled = False
        over = [each for each in self._waiting if each.lease() is None]
        self._waiting = [each for each in self._waiting if each.lease() is not None]
        policies = _release(over)
        over.clear()  # the last reference to the policies, unless they have cycles
        if any_left() or any(each() is not None for each in policies):
            self._collect()
        if self._waiting:
            self._schedule_check(now_ms)


def _release(retired: Iterable[_Retired]) -> list[ref[Policy]]:
    """Give up the alarms; return what tells whether the policies are still there."""
    policies = []
    for entries, _ in retired:
        give_up_alarms(entries)
        policies += [ref(entry.policy) for entry in entries]
    return policies
