"""Histograms of the family `api`: merged by adding the counts of each bucket, and their percentiles.

Rules:
- The buckets are those of the usage log: bucket i holds times of at most 2^(i/8) microseconds, see `edge_us`.
- A column of histograms is a pair of lists: the numbers of its buckets in order, and their counts, which are not 0.
- All histograms of a column are computed at once.
- Quantiles and totals are computed as Sluice's own telemetry does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Reals = NDArray[np.float64]

PER_DOUBLING: Final = 8
"""How many buckets there are from one time to the double of it."""
_DENSE: Final = 8
"""Counts are added in an array of all groups and buckets if it has at most so many places for each count."""


def merged(
    buckets: pa.ChunkedArray, counts: pa.ChunkedArray, group: Ints, groups: int
) -> tuple[pa.Array, pa.Array]:
    """Return a histogram for each group: that of all rows whose `group` is its number."""
    lists = buckets.combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    bucket = lists.flatten().to_numpy().astype(np.int64)
    number = counts.combine_chunks().flatten().to_numpy()
    width = int(bucket.max(initial=0)) + 1
    place = np.repeat(group, lengths) * width + bucket
    if groups * width <= _DENSE * len(place):
        sums = np.zeros(groups * width, np.int64)
        np.add.at(sums, place, number)
        places = np.flatnonzero(sums)
        sums = sums[places]
    else:
        order = np.argsort(place, kind="stable")
        place = place[order]
        starts = np.flatnonzero(np.diff(place, prepend=-1))
        places = place[starts]
        sums = np.add.reduceat(number[order], starts) if len(starts) else number
    offsets = pa.array(np.searchsorted(places, np.arange(groups + 1) * width).astype(np.int32))
    return (
        pa.ListArray.from_arrays(offsets, pa.array((places % width).astype(np.int32))),
        pa.ListArray.from_arrays(offsets, pa.array(sums)),
    )


class Histograms:
    """The histograms of a column."""

    def __init__(self, buckets: pa.ListArray, counts: pa.ListArray) -> None:
        lengths = pc.fill_null(pc.list_value_length(buckets), 0).to_numpy().astype(np.int64)
        self._ends = np.cumsum(lengths)
        self._starts = self._ends - lengths
        self._bucket = buckets.flatten().to_numpy().astype(np.int64)
        self._count = counts.flatten().to_numpy()
        self._seen = np.concatenate(([0], np.cumsum(self._count)))
        self.counts: Ints = self._seen[self._ends] - self._seen[self._starts]
        """How many times each histogram holds."""

    def quantiles_us(self, share: float) -> Reals:
        """Return the `share` quantile (0 to 1) of each in microseconds: the edge of its bucket; 0 for no times."""
        rank = share * self.counts
        # The first bucket with which as many times are seen; ranks are compared as the telemetry does.
        found = np.searchsorted(
            self._seen, self._seen[self._starts] + np.ceil(rank).astype(np.int64)
        )
        bucket = np.append(self._bucket, 0)[np.maximum(found, 1) - 1]
        return np.where(rank > 0, edge_us(bucket), 0.0)

    def totals_us(self) -> Reals:
        """Return the sum of all times of each in microseconds, each as the middle of its bucket."""
        middle = (edge_us(self._bucket) + edge_us(self._bucket - 1)) / 2
        spent = np.where(self._bucket > 0, self._count * middle, 0.0)
        found = np.zeros(len(self._ends))
        some = self._ends > self._starts
        if len(spent):
            found[some] = np.add.reduceat(spent, self._starts[some])
        return found


def edge_us(bucket: Ints) -> Reals:
    """Return the upper edge of buckets, in microseconds."""
    return np.asarray(2.0 ** (bucket / PER_DOUBLING))
