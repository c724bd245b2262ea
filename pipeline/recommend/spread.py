"""How the window rates of many groups spread: percentiles, maximum and skew, for all groups at once."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.rates import WindowRates

    Ints = NDArray[np.int64]
    Reals = NDArray[np.float64]

_MANY: Final = 64
"""Groups of more values than this are faster sorted one by one."""


class Spread(NamedTuple):
    """How the window rates of groups spread; one value for each group."""

    group: Ints
    value: Reals
    fitted: Reals
    p50: Reals
    p99: Reals
    p999: Reals
    max: Reals
    windows: Ints
    instances: Ints
    skew: Reals
    total: Reals

    @classmethod
    def of(cls, found: WindowRates, instances: int, percentile: float, fit_until_s: int) -> Spread:
        """Return the spread over all instances; the entities of `found` are group * instances + instance."""
        first_of_entity = np.flatnonzero(np.diff(found.entity, prepend=-1))
        owner = found.entity[first_of_entity] // instances
        first_of_group = np.flatnonzero(np.diff(owner, prepend=-1))
        groups, starts = owner[first_of_group], first_of_entity[first_of_group]
        counts = np.diff(np.append(starts, len(found.rate)))
        rate = _sorted_within(found.rate, counts)
        early = found.second < fit_until_s
        before = np.append(0, np.cumsum(early))
        fits = before[starts + counts] - before[starts]
        early_rate = np.append(_sorted_within(found.rate[early], fits), np.nan)
        fit_starts = np.cumsum(fits) - fits
        fit_ranks = np.minimum(_rank(fit_starts, fits, percentile), len(early_rate) - 1)
        fitted = np.where(fits > 0, early_rate[fit_ranks], np.nan)
        sums = _sums_within(found.amount, first_of_entity)
        active = np.diff(np.append(first_of_group, len(owner)))
        total = _sums_within(sums, first_of_group)
        most = np.maximum.reduceat(sums, first_of_group) if len(sums) else sums
        return cls(
            groups,
            rate[_rank(starts, counts, percentile)],
            fitted,
            rate[_rank(starts, counts, 50)],
            rate[_rank(starts, counts, 99)],
            rate[_rank(starts, counts, 99.9)],
            rate[starts + counts - 1] if len(starts) else rate,
            counts,
            active,
            most * active / np.maximum(total, 1e-9),
            total,
        )

    def take(self, which: Ints) -> Spread:
        """Return these groups."""
        return Spread(*(column[which] for column in self))  # type: ignore[arg-type] # columns of both kinds


def _sums_within(values: Reals, starts: Ints) -> Reals:
    return np.add.reduceat(values, starts) if len(starts) else values


def _sorted_within(values: Reals, counts: Ints) -> Reals:
    """Return the values sorted within each group; groups of so many values follow each other."""
    if len(counts) * _MANY > len(values):
        return values[np.lexsort((values, np.repeat(np.arange(len(counts)), counts)))]
    done = values.copy()
    for start, end in pairwise(np.append(0, np.cumsum(counts))):
        done[start:end].sort()
    return done


def _rank(starts: Ints, counts: Ints, percentile: float) -> Ints:
    """Return the place of the percentile of each group of sorted values (nearest rank)."""
    rank = np.ceil(counts * (percentile / 100) - 1e-9).astype(np.int64)
    return np.asarray(starts + np.maximum(rank, 1) - 1)
