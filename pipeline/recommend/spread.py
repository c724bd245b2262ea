"""How the window rates of many groups spread: percentiles, maximum and skew, for all groups at once."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pipeline.rates import WindowRates

    Ints = NDArray[np.int64]
    Reals = NDArray[np.float64]

_MANY: Final = 64
"""Groups of more values than this are faster arranged one by one."""


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
        ranks = [_rank(starts, counts, each) for each in (percentile, 50, 99, 99.9)]
        value, p50, p99, p999 = _as_if_sorted(found.rate, counts, ranks)
        early = found.second < fit_until_s
        fits = np.zeros(len(starts), np.int64)
        if len(starts):
            fits = np.asarray(np.add.reduceat(early, starts, dtype=np.int64))
        fit_starts = np.cumsum(fits) - fits
        (fitted,) = _as_if_sorted(found.rate[early], fits, [_rank(fit_starts, fits, percentile)])
        sums = _sums_within(found.amount, first_of_entity)
        active = np.diff(np.append(first_of_group, len(owner)))
        total = _sums_within(sums, first_of_group)
        most = np.maximum.reduceat(sums, first_of_group) if len(sums) else sums
        return cls(
            groups,
            value,
            fitted,
            p50,
            p99,
            p999,
            np.maximum.reduceat(found.rate, starts) if len(starts) else found.rate,
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


def _as_if_sorted(values: Reals, counts: Ints, places: Sequence[Ints]) -> list[Reals]:
    """Return what is at each of the places once each group of so many values is sorted; of an empty group nan."""
    if len(counts) * _MANY > len(values):
        done = values[np.lexsort((values, np.repeat(np.arange(len(counts)), counts)))]
    else:
        done = values.copy()
        ends = np.cumsum(counts)
        inside = np.stack(places) - (ends - counts)
        for group, (start, end) in enumerate(pairwise(np.append(0, ends))):
            if end > start:
                done[start:end].partition(inside[:, group])
    done = np.append(done, np.nan)
    return [np.where(counts > 0, done[np.minimum(each, len(done) - 1)], np.nan) for each in places]


def _rank(starts: Ints, counts: Ints, percentile: float) -> Ints:
    """Return the place of the percentile of each group of sorted values (nearest rank)."""
    rank = np.ceil(counts * (percentile / 100) - 1e-9).astype(np.int64)
    return np.asarray(starts + np.maximum(rank, 1) - 1)
