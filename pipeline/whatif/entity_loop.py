"""Enforcement `entity` in the closed loop: the release schedule that all connections of a bucket share.

Rules:
- In a second a bucket passes its credits and what the limit adds. The rest waits, first come first served:
  each client gets the share that its waiting requests have in all of them.
- Each request that waits blocks a connection, and the clock of a client advances by the share of its connections that
  are not blocked. The requests of one batch block one connection.
- The wait of a request is what waits in its bucket, by the limit. A part of it is the time for which its client is
  muted after the request before: until those that were held then have passed, and for one interval at least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from pipeline.whatif.schedules import ReleaseSchedules

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.whatif.delays import DelayCounts
    from pipeline.whatif.open_loop import OpenLoop
    from pipeline.whatif.second import BatchFlow, BucketSecond

    Reals = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_ROUNDS: Final = 2
"""Steps to share what passes among the clients of a bucket, and to tell holds from mutes."""


class Blocking(NamedTuple):
    """How waiting requests block the connections of clients."""

    cost: Reals
    batch: Reals
    connections: Reals

    def blocked(self, waiting: Reals) -> Reals:
        """Return how many connections of each client are blocked by the amount that waits."""
        requests = waiting / self.cost
        one_each = np.maximum(requests / self.batch, np.minimum(requests, 1.0))
        return np.minimum(one_each, self.connections)

    def share(self, waiting: Reals) -> Reals:
        """Return the share of the connections of each client that are blocked."""
        return self.blocked(waiting) / self.connections

    def clock(self, base: Reals, flow: BatchFlow) -> Reals:
        """Return by how much each clock advances if `base` and what is sent meanwhile wait at the end.

        That is the root of clock - 1 + share(base + sent(clock)). `share` is a minimum and a maximum of straight lines,
        and each term grows with the clock: so the root is the same maximum and minimum of the roots for each line.
        """
        one_each = 1 / (self.cost * self.connections)
        single = np.maximum(flow.meets(base, one_each), 1 - 1 / self.connections)
        batched = flow.meets(base, one_each / self.batch)
        return np.clip(np.minimum(single, batched), 0.0, 1.0)


class EntityLoop:
    """Advances clients under release schedules with these limits per second."""

    def __init__(self, limit: Reals, burst_ms: float, clients: int) -> None:
        self._limit = limit
        self._schedules = ReleaseSchedules(limit, burst_ms)
        self._waiting = np.zeros(clients)  # amounts
        self._clock = np.ones(clients)  # by how much each clock advanced last

    def undelayed(self, recorded: OpenLoop) -> Flags:
        """Return the buckets in which no request waits."""
        burst_s = self._schedules.burst_ms / 1000
        return np.asarray(recorded.delayed_by_schedule(self._limit, burst_s, in_doubt=True) == 0)

    def advance(self, now: BucketSecond, delays: DelayCounts) -> tuple[Reals, Reals, Flags]:
        """Return what each client may send, by how much its clock advances, and whether requests of it wait."""
        at_ms = now.second.astype(np.float64) * 1000
        before = np.where(now.begins, 0.0, self._waiting[now.client])
        credits_ = self._schedules.credits(now.bucket, at_ms)
        passes = np.maximum(credits_ + self._limit[now.bucket], 0.0)
        flow = now.flow(np.arange(len(before)))
        clock = np.ones(len(before))
        after = np.zeros(len(before))
        over = now.by_bucket(before + flow.sent(clock)) > passes
        if before.any():  # what waited blocks its connections until it has passed
            busy = np.minimum(now.by_bucket(before) / np.maximum(passes, 1e-12), 1.0)
            per_request = Blocking(now.cost, now.largest_batch, now.connections)
            clock -= busy[now.of_client] * per_request.share(before)
        if over.any():
            which = np.flatnonzero(over[now.of_client])
            rank = (np.cumsum(over) - 1)[now.of_client[which]]
            clock[which], after[which] = self._limited(
                now, which, rank, before[which], passes[over]
            )
        accepted = np.maximum(before + flow.sent(clock) - after, 0.0)
        self._schedules.charge(now.bucket, now.by_bucket(accepted), at_ms)
        self._waiting[now.client] = after
        self._clock[now.client] = clock
        self._count(now, credits_, accepted, after, delays)
        return accepted, clock, after > 0

    def _limited(
        self, now: BucketSecond, which: Ints, rank: Ints, before: Reals, passes: Reals
    ) -> tuple[Reals, Reals]:
        """Return by how much each clock advances, and what waits at the end of the second.

        The clock advances by the share of connections that what then waits does not block.
        """
        flow = now.flow(which)
        blocking = Blocking(now.cost[which], now.largest_batch[which], now.connections[which])
        clock = self._clock[now.client[which]]
        after = before
        for _ in range(_ROUNDS):
            queued = before + flow.sent(clock)
            total = np.bincount(rank, queued)
            base = before - (passes / np.maximum(total, 1e-12))[rank] * queued
            clock = blocking.clock(base, flow)
            after = np.maximum(base + flow.sent(clock), 0.0)
        return clock, after

    def _count(
        self, now: BucketSecond, credits_: Reals, accepted: Reals, after: Reals, delays: DelayCounts
    ) -> None:
        limit = self._limit[now.bucket]
        amount = now.by_bucket(accepted)
        # Until the credits are used up no request waits; a batch uses them at once.
        pace = np.maximum(now.by_bucket(np.maximum(*now.pace) * now.batch), amount)
        free = credits_ * pace / np.maximum(pace - limit, 1e-12)
        free = np.where(pace > limit, np.clip(free, 0.0, amount), amount)
        delayed = accepted * (1 - free / np.maximum(amount, 1e-12))[now.of_client] / now.cost
        which = delayed > 1e-6
        if not which.any():
            return
        ahead = now.by_bucket(
            Blocking(now.cost, now.largest_batch, now.connections).blocked(after) * now.cost
        )
        wait_ms = (ahead / limit * 1000)[now.of_client[which]]
        interval_ms = now.cost[which] * 1000 / limit[now.of_client[which]]
        held_ms = wait_ms
        for _ in range(_ROUNDS):
            muted_ms = held_ms + interval_ms
            idle_ms = now.cycle_ms(which, muted_ms) - muted_ms  # of the client, after the mute
            waits_unread_ms = np.maximum(muted_ms + idle_ms - now.own_ms[which], 0.0)
            held_ms = np.maximum((held_ms + np.maximum(wait_ms - waits_unread_ms, 0.0)) / 2, 0.0)
        delays.add(now.client[which], 2 * held_ms + interval_ms, delayed[which])
