"""How long things took, counted in buckets: a list of integers that the request path may add to by itself.

Rules:
- The buckets are OpenTelemetry's exponential ones at scale 3 (eight a doubling, 9 % wide): bucket `i`
  holds (2^((i-1)/8), 2^(i/8)] microseconds, bucket 0 what took one or none. Every eighth edge is a power of two.
- `BUCKET[us]` is the bucket of what took less than FINE_US; `bucket_of` is for all, with edges good to 1.6 %.
- Buckets add: two histograms joined are the sum of their counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SCALE = 3
PER_DOUBLING = 1 << SCALE
FINE_US = 1 << 16
"""Below this a bucket is found by one look at `BUCKET`."""
BUCKETS = 30 * PER_DOUBLING + 1
"""The last one holds all above 2^30 microseconds, 18 minutes."""


def _table() -> bytes:
    edges = [int(2 ** (place / PER_DOUBLING)) for place in range(16 * PER_DOUBLING + 1)]
    runs = (bytes((n,)) * (edges[n] - edges[n - 1]) for n in range(1, len(edges)))
    return (b"\0" * 2 + b"".join(runs))[:FINE_US]


BUCKET = _table()
"""Microseconds to bucket."""
_STEPS = ((6, 6 * PER_DOUBLING), (12, 12 * PER_DOUBLING), (14, 14 * PER_DOUBLING))


def bucket_of(us: int) -> int:
    """The bucket of any duration; a negative one counts as none."""
    if us < FINE_US:
        return BUCKET[us] if us > 0 else 0
    for shift, buckets in _STEPS:
        if us >> shift < FINE_US:
            return min(BUCKET[us >> shift] + buckets, BUCKETS - 1)
    return BUCKETS - 1


def edge_us(bucket: int) -> float:
    """The upper edge of a bucket."""
    return float(2 ** (bucket / PER_DOUBLING))


def total_us(counts: Sequence[int]) -> float:
    """What all of them took together, each taken for the middle of its bucket: good to a few per cent."""
    return sum(
        count * (edge_us(place) + edge_us(place - 1)) / 2
        for place, count in enumerate(counts)
        if count and place
    )


def quantile_us(counts: Sequence[int], share: float) -> float:
    """The duration that `share` of them did not exceed: its bucket's upper edge; 0 of none."""
    rank = share * sum(counts)
    if not rank:
        return 0.0
    seen = 0
    for place, count in enumerate(counts):
        seen += count
        if count and seen >= rank:
            return edge_us(place)
    return edge_us(len(counts) - 1)


def joined(histograms: Iterable[Sequence[int]]) -> list[int]:
    """The sum of several."""
    sums = [0] * BUCKETS
    for counts in histograms:
        sums = list(map(int.__add__, sums, counts))
    return sums
