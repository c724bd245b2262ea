"""The closed loop: what buckets and their clients do under a quota, from one-second demand, all buckets at once.

Rules:
- Each client has a virtual clock over its demand. The clock stops while the client is blocked: a throttled client sends
  later, not less. It also does what it would have done between requests while it is muted.
- A step takes one second of every bucket, each its own next second with demand; idle seconds take no step.
- Requests that a client could not send before its recorded session ended are unsent.
- Buckets that the rule never delays take no steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from pipeline.whatif.delays import DelayCounts
from pipeline.whatif.demand import NEVER
from pipeline.whatif.open_loop import OpenLoop
from pipeline.whatif.second import BucketSecond

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.whatif.demand import ClientDemand

    Reals = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

CLOCK_DISPERSION: Final = 0.5
"""A client whose counts vary less sends at fixed times."""
_COMPACT_EVERY: Final = 16
"""Finished buckets are dropped after so many steps."""


class Rule(Protocol):
    """An enforcement."""

    def undelayed(self, recorded: OpenLoop) -> Flags:
        """Return the buckets in which nothing is ever delayed."""

    def advance(self, now: BucketSecond, delays: DelayCounts) -> tuple[Reals, Reals, Flags]:
        """Return what each client may send, by how much its clock advances, and whether requests of it wait.

        The delays are counted.
        """


@dataclass(slots=True)
class Simulated:
    """The result for each simulated client. Amounts are requests or bytes."""

    seconds: Reals
    """The length of its sessions."""
    wanted: Reals
    accepted: Reals
    requests: Reals
    """Accepted requests."""
    delays: DelayCounts


def simulate(demand: ClientDemand, rule: Rule) -> Simulated:
    """Run all buckets of `demand` under `rule`."""
    undelayed = rule.undelayed(OpenLoop.of(demand))
    clocks = _Clocks(demand, ~undelayed)
    clients = demand.clients
    outcome = Simulated(
        _session_seconds(demand),
        np.zeros(clients),
        np.zeros(clients),
        np.zeros(clients),
        DelayCounts(clients),
    )
    outcome.wanted = _sums(demand, demand.amount)
    is_whole = np.repeat(undelayed, np.diff(demand.first_client))
    outcome.accepted[is_whole] = outcome.wanted[is_whole]
    outcome.requests[is_whole] = _sums(demand, demand.requests * (demand.amount > 0))[is_whole]
    steps = 0
    while len(clocks.bucket):
        now = clocks.begin_second()
        accepted, clock, waiting = rule.advance(now, outcome.delays)
        clocks.advance(clock, waiting)
        outcome.accepted[now.client] += accepted
        outcome.requests[now.client] += accepted / now.cost
        steps += 1
        if steps % _COMPACT_EVERY == 0:
            clocks.drop_finished()
    return outcome


def _sums(demand: ClientDemand, column: Reals) -> Reals:
    """Return the sum of a column for each client."""
    sums = np.concatenate(([0.0], np.cumsum(column)))
    return np.asarray(sums[demand.first_row[1:]] - sums[demand.first_row[:-1]])


def _session_seconds(demand: ClientDemand) -> Reals:
    second, end = demand.second[:-1], demand.session_end[:-1]
    fresh = np.ones(len(second), bool)
    fresh[1:] = end[1:] != end[:-1]
    fresh[demand.first_row[:-1][np.diff(demand.first_row) > 0]] = True
    return _sums(demand, np.where(fresh, end - second, 0))


class _Clocks:
    """The virtual clocks of the clients of those buckets that still have demand."""

    def __init__(self, demand: ClientDemand, wanted: Flags) -> None:
        self._demand = demand
        self._row = demand.first_row[:-1].copy()
        self._lag_s = np.zeros(demand.clients)
        # Whether the next row is of the same session.
        self._continues = np.zeros(len(demand.second), bool)
        self._continues[:-1] = demand.session_end[1:] == demand.session_end[:-1]
        self._continues[demand.first_row[1:] - 1] = False
        buckets = np.flatnonzero(np.diff(demand.first_client) > 0)
        self.second = np.zeros(len(demand.limit), np.int64)
        if len(buckets):
            first = demand.second[self._row]
            starts = demand.first_client[:-1][buckets]
            self.second[buckets] = np.minimum.reduceat(first, starts)
        self._take(buckets[wanted[buckets]])

    def _take(self, buckets: Ints) -> None:
        """Keep these buckets only."""
        demand = self._demand
        self.bucket = buckets
        counts = np.diff(demand.first_client)[buckets]
        self._starts = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64)
        self._of_client = np.repeat(np.arange(len(buckets)), counts)
        offsets = np.arange(len(self._of_client)) - self._starts[self._of_client]
        self._client = demand.first_client[:-1][buckets][self._of_client] + offsets

    def drop_finished(self) -> None:
        """Drop the buckets that have no demand any more."""
        alive = self.second[self.bucket] < NEVER
        if not alive.all():
            self._take(self.bucket[alive])

    def begin_second(self) -> BucketSecond:
        """Return the next second of each bucket."""
        demand, client = self._demand, self._client
        second = self.second[self.bucket]
        at = second[self._of_client]
        row = self._row[client]
        begins = demand.session_end[row] <= at
        if begins.any():  # what was not sent in that session stays unsent
            row = np.where(begins, demand.next_session[row], row)
            self._lag_s[client[begins]] = 0.0
        virtual = at - self._lag_s[client]
        cell = np.floor(virtual).astype(np.int64)
        row += (demand.second[row] < cell) & self._continues[row]
        self._row[client] = row
        used = virtual - cell  # of the cell
        in0 = demand.second[row] == cell
        following = row + (in0 & self._continues[row])
        in1 = (demand.second[following] == cell + 1) & (used > 0)
        pace0 = np.where(in0, demand.amount[row], 0.0)
        pace1 = np.where(in1, demand.amount[following], 0.0)
        wanted0, wanted1 = pace0 * (1 - used), pace1 * used
        wanted = wanted0 + wanted1
        # The pace of one second counts, not the mean over a burst and the pause after it.
        local = np.where(in0 & (wanted0 >= wanted1), row, following)
        some = (wanted > 0) & (demand.requests[local] > 0)
        requests = np.where(some, demand.requests[local], 1.0)
        amount = np.where(some, demand.amount[local], 1.0)
        connections = np.where(some, demand.connections[local], 1.0)
        batched = demand.batch[client]
        batch0 = np.minimum(batched, np.maximum(demand.requests[row], 1.0))
        batch1 = np.minimum(batched, np.maximum(demand.requests[following], 1.0))
        self._now = BucketSecond(
            self.bucket,
            second,
            self._starts,
            self._of_client,
            client,
            begins,
            amount / requests,
            connections,
            np.where(some, connections * 1000 / requests, np.inf),
            np.where(local == row, batch0, batch1),
            batched,
            demand.dispersion[client] < CLOCK_DISPERSION,
            (pace0, pace1),
            (batch0, batch1),
            1 - used,
        )
        return self._now

    def advance(self, clock: Reals, waiting: Flags) -> None:
        """Advance each clock, and find the next second of each bucket."""
        demand, now = self._demand, self._now
        lag_s = self._lag_s[now.client] + (1 - clock)
        self._lag_s[now.client] = lag_s
        done = (now.second + 1)[now.of_client]
        row = self._row[now.client]
        used = demand.second[row] + 1 <= done - lag_s + 1e-9
        more = ~used | self._continues[row]
        row += used & more
        # The next row of this session is as late as the clock is; the next session begins on time.
        due = np.where(waiting, done, np.floor(demand.second[row] + lag_s))
        more = (more | waiting) & (due < demand.session_end[row])
        due = np.where(more, due, demand.second[demand.next_session[row]])
        self.second[self.bucket] = np.minimum.reduceat(np.maximum(due, done), now.starts)
