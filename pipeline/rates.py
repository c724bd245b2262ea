"""The rates that a quota policy measures, from rows of one second each.

Rules:
- The policy's windows begin at whole seconds, and so do the rows. Its rate over 11 windows of one second is the sum of
  the present second and the ten before it, divided by 10.5 s: the present second is half over on average.
- A quota holds in one Sluice, so a rate is one of an instance.
- There is a window for each second with a row. A policy judges requests only, so seconds in which an entity sends
  nothing are no windows. They count as empty in the windows of the ten seconds after them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]
    Ints = NDArray[np.int64]

WINDOWS: Final = 11
SPAN_S: Final = WINDOWS - 0.5
_SECOND_BITS: Final = 32


class WindowRates(NamedTuple):
    """The windows in which something was sent, sorted by entity and second."""

    entity: Ints
    second: Ints
    amount: Reals
    """The sum of the second itself."""
    rate: Reals
    """Per second."""


class WindowIndex:
    """The windows of entities, which are numbers below 2^31: one for each entity and second with a row."""

    def __init__(self, entity: Ints, second: Ints) -> None:
        key = entity.astype(np.int64) << _SECOND_BITS | second.astype(np.int64)
        self._order = np.argsort(key, kind="stable")
        key = key[self._order]
        self._starts = np.flatnonzero(np.diff(key, prepend=-1))
        key = key[self._starts]
        self._first = np.searchsorted(key, key - (WINDOWS - 1))
        self._entity, self._second = key >> _SECOND_BITS, key & (1 << _SECOND_BITS) - 1

    def rates(self, amount: Reals) -> WindowRates:
        """Return the rates of an amount of each row. Rows of one entity and second are added; seconds that then have
        nothing are no windows.
        """
        summed = amount[self._order].astype(np.float64)
        if len(self._starts) < len(summed):
            summed = np.add.reduceat(summed, self._starts)
        before = np.concatenate(([0.0], np.cumsum(summed)))
        rate = (before[1:] - before[self._first]) / SPAN_S
        some = summed > 0
        if some.all():
            return WindowRates(self._entity, self._second, summed, rate)
        return WindowRates(self._entity[some], self._second[some], summed[some], rate[some])
