"""One second of many buckets, as the rules of both enforcements see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]


class BatchFlow(NamedTuple):
    """Two times at which each client sends, in seconds of its own time from now, and what it sends per second there."""

    pace0: Reals
    for0: Reals
    pace1: Reals
    for1: Reals
    from1: Reals

    def sent(self, clock: Reals) -> Reals:
        """Return what each client sends while its clock advances by `clock` seconds."""
        in1 = np.minimum(np.maximum(clock - self.from1, 0.0), self.for1)
        return np.asarray(self.pace0 * np.minimum(clock, self.for0) + self.pace1 * in1)

    def meets(self, base: Reals, slope: Reals) -> Reals:
        """Return the clock at which clock + slope * (base + sent(clock)) is 1; beyond 0 and 1 it is not exact."""
        left = 1 - slope * base
        growth0, growth1 = 1 + slope * self.pace0, 1 + slope * self.pace1
        clock = np.minimum(left / growth0, self.for0)
        left -= clock * growth0
        pause = np.minimum(left, self.from1 - self.for0)
        left -= pause
        last = np.minimum(left / growth1, self.for1)
        left -= last * growth1
        return np.asarray(clock + pause + last + left)


@dataclass(slots=True)
class BucketSecond:
    """One second of the buckets that have demand in it. Clients are sorted by bucket."""

    bucket: Ints
    """The place of each bucket."""
    second: Ints
    """The second of each bucket."""
    starts: Ints
    """The first client of each bucket."""
    of_client: Ints
    """The row of each client's bucket in the columns above."""
    client: Ints
    """The place of each client."""
    begins: Flags
    """Whether a session of each client begins."""
    cost: Reals
    """The amount of one request of each client."""
    connections: Reals
    own_ms: Reals
    """The time that each client takes from one request to the next on one connection, without delays."""
    batch: Reals
    """How many requests a connection sends without a pause."""
    largest_batch: Reals
    """The same, over all seconds of each client."""
    by_clock: Flags
    """Whether each client sends at fixed times; else at random ones."""
    pace: tuple[Reals, Reals]
    """The amount that a client sends per second of its own time: before its clock passes a whole second, and after."""
    batches: tuple[Reals, Reals]
    """`batch` in these two parts."""
    left: Reals
    """The time until the whole second, in seconds."""

    def everything(self) -> Reals:
        """Return what each client sends while its clock advances by a second."""
        return np.asarray(self.pace[0] * self.left + self.pace[1] * (1 - self.left))

    def flow(self, which: Ints) -> BatchFlow:
        """Return how these clients send if all of a second comes at the pace of a batch, then there is a pause."""
        batch0, batch1, left = self.batches[0][which], self.batches[1][which], self.left[which]
        return BatchFlow(
            self.pace[0][which] * batch0,
            np.minimum(np.maximum(1 / batch0 - (1 - left), 0.0), left),
            self.pace[1][which] * batch1,
            np.minimum(1 / batch1, 1 - left),
            left,
        )

    def clock_of(self, sent: Reals) -> Reals:
        """Return by how much each clock advances until so much is sent evenly."""
        in0 = np.minimum(sent, self.pace[0] * self.left)
        time0 = np.where(self.pace[0] > 0, in0 / np.maximum(self.pace[0], 1e-12), self.left)
        return np.minimum(time0 + (sent - in0) / np.maximum(self.pace[1], 1e-12), 1.0)

    def cycle_ms(self, which: Ints | Flags, muted_ms: Reals) -> Reals:
        """Return the mean time from one request to the next if each connection is muted for `muted_ms` after each
        request. Pauses go by while the connection is muted.
        """
        pause_ms = np.minimum(self.own_ms[which] * self.batch[which], 1e12)
        longer_ms = np.where(
            self.by_clock[which],
            np.maximum(pause_ms - muted_ms, 0.0),
            pause_ms * np.exp(-muted_ms / pause_ms),
        )  # the part of a pause that is left after the mute
        return np.asarray(muted_ms + longer_ms / self.batch[which])

    def by_bucket(self, of_clients: Reals) -> Reals:
        """Return the sum of a client's column for each bucket."""
        return np.asarray(np.add.reduceat(of_clients, self.starts))
