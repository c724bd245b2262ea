"""Delays of many clients, counted in buckets of 9 % width: percentiles without keeping every request."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Reals = NDArray[np.float64]
    Ints = NDArray[np.int64]

PER_DOUBLING: Final = 8
BINS: Final = 1 + PER_DOUBLING * 24
"""Bin 0: less than half a millisecond, which is no delay. The last holds all delays above two hours."""
MIN_DELAY_MS: Final = 0.5


class DelayCounts:
    """The delayed requests of each client, by delay."""

    def __init__(self, clients: int) -> None:
        self.table = np.zeros((clients, BINS))

    def add(self, client: Ints, delay_ms: Reals, requests: Reals) -> None:
        """Count so many requests of each client with this delay."""
        bins = np.log2(np.maximum(delay_ms, MIN_DELAY_MS) / MIN_DELAY_MS) * PER_DOUBLING
        bins = np.minimum(np.ceil(bins), BINS - 1).astype(np.int64)
        np.add.at(self.table.reshape(-1), client * BINS + bins, requests)

    def merged(self, member: Ints, part: Reals, group: Ints, groups: int) -> DelayCounts:
        """Return the counts of groups: each adds this part of the counts of some members."""
        found = DelayCounts(groups)
        place, index = np.nonzero(self.table[member])
        counts = self.table[member[place], index] * part[place]
        np.add.at(found.table, (group[place], index), counts)
        return found

    def sparse(self) -> tuple[list[list[int]], list[list[float]]]:
        """Return the bins of each client that are not empty, and their counts."""
        place, index = np.nonzero(self.table)
        counts = self.table[place, index]
        ends = np.searchsorted(place, np.arange(len(self.table) + 1))
        pairs = list(itertools.pairwise(ends))
        return (
            [index[a:b].tolist() for a, b in pairs],
            [np.round(counts[a:b], 3).tolist() for a, b in pairs],
        )

    def delayed(self) -> Reals:
        """Return how many requests of each client were delayed."""
        return np.asarray(self.table[:, 1:].sum(axis=1))

    def percentile_ms(self, share: float, requests: Reals) -> Reals:
        """Return the delay that `share` of each client's `requests` do not exceed; those not counted had none."""
        counts = self.table.copy()
        counts[:, 0] += np.maximum(requests - counts.sum(axis=1), 0.0)
        reached = np.cumsum(counts, axis=1) >= (share * counts.sum(axis=1) - 1e-9)[:, None]
        bins = np.argmax(reached, axis=1)
        middle = MIN_DELAY_MS * 2 ** ((bins - 0.5) / PER_DOUBLING)
        return np.where(bins > 0, middle, 0.0)


def percentile_of(counts: Mapping[int, float], share: float, requests: float) -> float:
    """Return the delay in ms that `share` of the requests do not exceed; `counts` are the delayed ones by bin."""
    one = DelayCounts(1)
    for index, count in counts.items():
        one.table[0, index] = count
    return float(one.percentile_ms(share, np.array([requests]))[0])
