"""What a rule would delay if all requests came when they were recorded: all seconds of all buckets at once.

Rules:
- Until the first delay all clocks are on time, so a bucket without a delay needs no closed loop. In doubt a bucket
  counts as delayed.
- A request counts as delayed if the limit does not let it pass at once, or asks its client to pause. A queue drains by
  the limit, and requests that come meanwhile wait. So clients whose work comes at times of its own are counted as they
  are, and those that think between requests as later than they would be.
- Within a second all comes at the pace of a batch, then there is a pause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from numpy.typing import NDArray

    from pipeline.whatif.demand import ClientDemand

    Reals = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_SECOND_BITS: Final = 36
_WIDEST, _NEAR = 4096.0, 1.01
"""The ends of the range that a limit is looked for in, by each other: at first at most, and at last."""
_ROWS_AT_ONCE: Final = 1 << 15
"""So many rows stay in the processor's cache while limits are tried."""
_MORE: Final = 1.2
"""A limit that is larger than the largest pace by this factor delays nothing, whatever the windows are."""


class OpenLoop(NamedTuple):
    """The amount that each bucket wants in each of its seconds, sorted by bucket and second."""

    bucket: Ints
    second: Ints
    amount: Reals
    requests: Reals
    pace: Reals
    """The amount per second while all clients of the bucket send their batches."""
    buckets: int

    @classmethod
    def of(cls, demand: ClientDemand, bucket_of: Ints | None = None) -> Self:
        """Return the seconds of all buckets: of those of the demand, or of these ones of its clients; -1 is none."""
        buckets = len(demand.limit) if bucket_of is None else int(bucket_of.max(initial=-1)) + 1
        if bucket_of is None:
            bucket_of = np.repeat(np.arange(buckets), np.diff(demand.first_client))
        rows = np.diff(demand.first_row)
        bucket, batch = np.repeat(bucket_of, rows), np.repeat(demand.batch, rows)
        amount, requests = demand.amount[:-1], demand.requests[:-1]
        columns = [amount, requests, amount * np.minimum(batch, np.maximum(requests, 1.0))]
        key = bucket << _SECOND_BITS | demand.second[:-1]
        some = (bucket >= 0) & (amount > 0)
        if not some.all():
            key, columns = key[some], [each[some] for each in columns]
        if (np.diff(key) <= 0).any():
            order = np.argsort(key, kind="stable")
            key = key[order]
            starts = np.flatnonzero(np.diff(key, prepend=-1))
            columns = [np.add.reduceat(each[order], starts) for each in columns]
            key = key[starts]
        second = key & (1 << _SECOND_BITS) - 1
        amount, requests, pace = columns
        return cls(key >> _SECOND_BITS, second, amount, requests, pace, buckets)

    def until(self, end_s: int) -> Self:
        """Return the seconds before this one."""
        early = self.second < end_s
        return self._replace(**{name: getattr(self, name)[early] for name in self._fields[:-1]})

    def slice(self, first: int, end: int, first_bucket: int, end_bucket: int) -> Self:
        """Return these rows, which are all that these buckets have."""
        rows = {name: getattr(self, name)[first:end] for name in self._fields[:-1]}
        rows["bucket"] = rows["bucket"] - first_bucket
        return self._replace(**rows, buckets=end_bucket - first_bucket)

    def delayed_by_schedule(self, limit: Reals, burst_s: float, *, in_doubt: bool = False) -> Reals:
        """Return how many requests of each bucket would be delayed under `ReleaseSchedules` with these limits."""
        if not len(self.bucket):
            return np.zeros(self.buckets)
        starts = np.flatnonzero(np.diff(self.bucket, prepend=-1))
        unit_s = (1 / limit)[self.bucket]
        spent_s = self.amount * unit_s
        spare_s = self.second - (np.cumsum(spent_s) - spent_s) - self.second.min()
        # The largest value so far in each bucket: all values of a bucket are lifted above those of the one before.
        highest, lowest = (each.reduceat(spare_s, starts) for each in (np.maximum, np.minimum))
        lifts = np.append(0.0, np.cumsum(np.maximum(highest[:-1] - lowest[1:], 0.0) + 1))
        spare_s += np.repeat(lifts, np.diff(np.append(starts, len(spare_s))))
        saved_s = burst_s + spare_s - np.maximum.accumulate(spare_s)
        if in_doubt:
            saved_s -= 1e-12 + 8 * np.finfo(np.float64).eps * np.abs(spare_s).max()
        some = np.flatnonzero(saved_s < spent_s)
        return self._delayed(some, saved_s[some] / unit_s[some], 1 / unit_s[some])

    def delayed_by_samples(self, limit: Reals, samples: int, window_ms: int) -> Reals:
        """Return how many requests of each bucket would be delayed under `SampledRates` with these limits."""
        window_s, own = window_ms / 1000, limit[self.bucket]
        sums = np.append(0.0, np.cumsum(self.amount))
        credits_ = np.full(len(own), np.inf)
        for windows in (samples - 1, samples):  # the oldest one ceases to count during the second
            first = self._first_within(windows * window_s)
            span_s = np.maximum(self.second - self.second[first], (samples - 1) * window_s)
            credits_ = np.minimum(credits_, span_s * own - (sums[:-1] - sums[first]))
        some = np.flatnonzero((credits_ < self.amount) & (self.amount > 0))
        return self._delayed(some, credits_[some], own[some])

    def _delayed(self, which: Ints, credits_: Reals, limit: Reals) -> Reals:
        """Return how many requests of each bucket are delayed if so much may pass at once at the beginning of some
        seconds: those after the credits are used up, and those before a debt is paid.
        """
        amount = self.amount[which]
        pace = np.maximum(self.pace[which], amount)
        free = np.where(
            pace > limit,
            credits_ * pace / np.maximum(pace - limit, 1e-12),
            amount * (1 + credits_ / np.maximum(limit - amount, 1e-12)),
        )
        late = self.requests[which] * (1 - np.clip(free / amount, 0.0, 1.0))
        return np.bincount(self.bucket[which], late, self.buckets).astype(np.float64)

    def passes_samples(self, limit: Reals, samples: int, window_ms: int) -> Flags:
        """Return the buckets that never exceed their limit by `SampledRates`."""
        # A window counts with all that was in it.
        first = self._first_within((samples + 1) * window_ms / 1000)
        sums = np.append(0.0, np.cumsum(self.amount))
        seen = (sums[1:] - sums[first]) * (1 + 1e-9)
        over = seen > limit[self.bucket] * ((samples - 1) * window_ms / 1000)
        return np.asarray(np.bincount(self.bucket, over, self.buckets) == 0)

    def _first_within(self, reach_s: float) -> Ints:
        """Return the first row of the same bucket that is at most so many seconds before each row."""
        own = self.bucket << _SECOND_BITS
        key = own | self.second
        return np.asarray(np.searchsorted(key, np.maximum(key - int(np.ceil(reach_s)), own)))


class Trial(NamedTuple):
    """How limits are tried."""

    delayed: Callable[[OpenLoop, Reals], Reals]
    """Gives the delayed requests of each bucket of a loop for limits of its buckets."""
    at_once_s: float
    """How many seconds' worth may pass at once."""
    target: float
    """The share of requests that may be delayed."""


def smallest_limits(loop: OpenLoop, group: Ints, trial: Trial) -> Reals:
    """Return for each group of buckets the smallest limit that meets the target, to one percent; nan for a group
    without requests.

    Found by halving: the limit and all larger ones that were tried meet it. `group` is that of each bucket, in order.
    """
    groups = int(group.max(initial=-1)) + 1
    first = np.searchsorted(group[loop.bucket], np.arange(groups + 1))  # the first row of each
    found, begin = np.full(groups, np.nan), 0
    while begin < groups:
        end = max(int(np.searchsorted(first, first[begin] + _ROWS_AT_ONCE)), begin + 1)
        end = min(end, groups)
        buckets = np.searchsorted(group, (begin, end))
        some = loop.slice(first[begin], first[end], *buckets.tolist())
        found[begin:end] = _smallest(some, group[slice(*buckets)] - begin, end - begin, trial)
        begin = end
    return found


def _smallest(loop: OpenLoop, group: Ints, groups: int, trial: Trial) -> Reals:
    owner = group[loop.bucket]
    high = np.zeros(groups)
    np.maximum.at(high, owner, np.maximum(loop.pace, loop.amount))
    requests = np.bincount(owner, loop.requests, groups)
    high = np.where(requests > 0, high * _MORE, np.nan)
    # In the time of a bucket no more passes without a delay than the limit allows.
    starts = np.flatnonzero(np.diff(loop.bucket, prepend=-1))
    ends = np.append(starts, len(owner))[1:] - 1
    time_s = loop.second[ends] - loop.second[starts] + 1 + trial.at_once_s
    total = np.bincount(owner, loop.amount, groups)
    passes = (
        np.bincount(loop.bucket, loop.amount)[loop.bucket[starts]]
        - trial.target * total[owner[starts]]
    )
    low = high / _WIDEST
    np.maximum.at(low, owner[starts], passes / time_s / _MORE)
    while (high > low * _NEAR).any():
        middle = np.sqrt(low * high)
        tried = np.nan_to_num(middle, nan=1.0)[group]
        enough = np.bincount(group, trial.delayed(loop, tried), groups) <= trial.target * requests
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    return high
