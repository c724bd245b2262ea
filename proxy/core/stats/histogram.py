"""Histograms of durations: plain lists of bucket counts, which the request path may increment directly.

Rules:
- The buckets are OpenTelemetry's exponential ones at scale 3 (eight per doubling, 9 % wide): bucket `i` counts
  durations in (2^((i-1)/8), 2^(i/8)] microseconds, bucket 0 those of at most 1 µs. Every eighth edge is a power of two.
- `BUCKET[us]` is the bucket of durations below FINE_US; `bucket_of` works for all, with edges accurate to 1.6 %.
- Histograms are merged by adding their counts.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SCALE = 3
PER_DOUBLING = 1 << SCALE
FINE_US = 1 << 16
"""For durations below this, `BUCKET` has the bucket."""
BUCKETS = 30 * PER_DOUBLING + 1
"""The number of buckets. The last one also counts all durations above 2^30 microseconds, which is 18 minutes."""
_PLACES: Final = range(BUCKETS)
_RUN: Final = 16


def _table() -> bytes:
    edges = [int(2 ** (place / PER_DOUBLING)) for place in range(16 * PER_DOUBLING + 1)]
    runs = (bytes((n,)) * (edges[n] - edges[n - 1]) for n in range(1, len(edges)))
    return (b"\0" * 2 + b"".join(runs))[:FINE_US]


BUCKET = _table()
"""The bucket of each duration in microseconds, below FINE_US."""
_STEPS = ((6, 6 * PER_DOUBLING), (12, 12 * PER_DOUBLING), (14, 14 * PER_DOUBLING))


def bucket_of(us: int) -> int:
    """Return the bucket of a duration in microseconds; a negative one counts as 0."""
    if us < FINE_US:
        return BUCKET[us] if us > 0 else 0
    for shift, buckets in _STEPS:
        if us >> shift < FINE_US:
            return min(BUCKET[us >> shift] + buckets, BUCKETS - 1)
    return BUCKETS - 1


def edge_us(bucket: int) -> float:
    """Return the upper edge of a bucket, in microseconds."""
    return float(2 ** (bucket / PER_DOUBLING))


def total_us(counts: Sequence[int]) -> float:
    """Return the sum of all durations, each estimated as the middle of its bucket; accurate to a few per cent."""
    return sum(
        count * (edge_us(place) + edge_us(place - 1)) / 2
        for place, count in enumerate(counts)
        if count and place
    )


def quantile_us(counts: Sequence[int], share: float, places: Sequence[int] = _PLACES) -> float:
    """Return the `share` quantile (0 to 1) in microseconds: the upper edge of its bucket; 0 for no durations.

    `places`: the buckets of the counts, ascending.
    """
    sums = list(accumulate(counts))
    rank = share * sums[-1] if sums else 0
    return edge_us(places[bisect_left(sums, rank)]) if rank else 0.0


def growth(new: list[int], old: list[int]) -> tuple[list[int], list[int]]:
    """Return the buckets that have grown, and by how much each.

    Few have, and it is done each second: equal runs of buckets are passed over at once.
    """
    places = [
        place
        for start in range(0, BUCKETS, _RUN)
        if new[start : start + _RUN] != old[start : start + _RUN]
        for place in range(start, min(start + _RUN, BUCKETS))
        if new[place] != old[place]
    ]
    return places, [new[place] - old[place] for place in places]


def joined(histograms: Iterable[Sequence[int]]) -> list[int]:
    """Return the sum of several histograms."""
    sums = [0] * BUCKETS
    for counts in histograms:
        sums = list(map(int.__add__, sums, counts))
    return sums
