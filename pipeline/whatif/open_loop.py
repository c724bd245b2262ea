"""The buckets that a rule never delays: their clients send what they want when they want, so no closed loop is needed.

Rules:
- Until the first delay all clocks are on time, so the recorded seconds are those of the simulation, and all seconds of
  all buckets are judged at once.
- In doubt a bucket counts as delayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.whatif.demand import ClientDemand

    Reals = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_SECOND_BITS: Final = 36


class OpenLoop(NamedTuple):
    """The amount that each bucket wants in each of its seconds, sorted by bucket and second."""

    limit: Reals
    """Of the row's bucket."""
    bucket: Ints
    second: Ints
    amount: Reals
    pace: Reals
    """The amount per second while all clients of the bucket send their batches."""
    buckets: int

    @classmethod
    def of(cls, demand: ClientDemand) -> OpenLoop:
        """Return the seconds of all buckets."""
        clients = np.diff(demand.first_client)
        bucket = np.repeat(np.repeat(np.arange(len(clients)), clients), np.diff(demand.first_row))
        key = bucket << _SECOND_BITS | demand.second[:-1]
        batch = np.repeat(demand.batch, np.diff(demand.first_row))
        amount = demand.amount[:-1]
        pace = amount * np.minimum(batch, np.maximum(demand.requests[:-1], 1.0))
        if (clients > 1).any():
            order = np.argsort(key, kind="stable")
            key = key[order]
            starts = np.flatnonzero(np.diff(key, prepend=-1))
            amount, pace = (np.add.reduceat(each[order], starts) for each in (amount, pace))
            key = key[starts]
        bucket = key >> _SECOND_BITS
        second = key & (1 << _SECOND_BITS) - 1
        return cls(demand.limit[bucket], bucket, second, amount, pace, len(clients))

    def passes_schedule(self, burst_ms: float) -> Flags:
        """Return the buckets in which no request waits under `ReleaseSchedules`."""
        if not len(self.bucket):
            return np.ones(self.buckets, bool)
        at_ms = (self.second - self.second.min()) * 1000.0
        spent_ms = self.amount * (1000 / self.limit)
        spare_ms = at_ms - (np.cumsum(spent_ms) - spent_ms)
        # The largest value so far in each bucket: all values of a bucket are lifted above those of the one before.
        starts = np.flatnonzero(np.diff(self.bucket, prepend=-1))
        highest, lowest = (each.reduceat(spare_ms, starts) for each in (np.maximum, np.minimum))
        lifts = np.append(0.0, np.cumsum(np.maximum(highest[:-1] - lowest[1:], 0.0) + 1))
        lifted = spare_ms + np.repeat(lifts, np.diff(np.append(starts, len(spare_ms))))
        rounding_ms = 1e-9 + 8 * np.finfo(np.float64).eps * np.abs(lifted).max()
        saved_ms = burst_ms + lifted - np.maximum.accumulate(lifted) - rounding_ms
        credits_ = saved_ms * self.limit / 1000
        pace = np.maximum(self.pace, self.amount)
        late = self.amount > credits_ + self.limit
        late |= (pace > self.limit) & (credits_ * pace < self.amount * (pace - self.limit))
        return np.asarray(np.bincount(self.bucket, late, self.buckets) == 0)

    def passes_samples(self, samples: int, window_ms: int) -> Flags:
        """Return the buckets that never exceed their limit by `SampledRates`."""
        reach_s = -(-(samples + 1) * window_ms // 1000)  # a window counts with all that was in it
        key = self.bucket << _SECOND_BITS | self.second
        first = np.searchsorted(key, np.maximum(key - reach_s, self.bucket << _SECOND_BITS))
        sums = np.append(0.0, np.cumsum(self.amount))
        seen = (sums[1:] - sums[first]) * (1 + 1e-9)
        over = seen > self.limit * ((samples - 1) * window_ms / 1000)
        return np.asarray(np.bincount(self.bucket, over, self.buckets) == 0)
