"""Enforcement `channel` in the closed loop: Kafka's sampled rate, judged at each reply.

Rules:
- A second is taken in steps of `1 / STEPS`. The delay of a step is the one that the rate asks for at its end: with more
  delay fewer requests come, so it settles where clients send what the limit allows (an implicit step).
- Only the connection that violates is muted, for at most `cap_ms`. One that is muted for longer than a step is away
  until then. Meanwhile its client thinks: one that thinks longer than it is muted is not slowed at all.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

import numpy as np

from pipeline.whatif.delays import MIN_DELAY_MS
from pipeline.whatif.schedules import SampledRates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.whatif.delays import DelayCounts
    from pipeline.whatif.open_loop import OpenLoop
    from pipeline.whatif.second import BucketSecond

    Reals = NDArray[np.float64]
    Flags = NDArray[np.bool_]

STEPS: Final = 10
_STEP_S: Final = 1 / STEPS
_SOME: Final = 0.05
"""Less than this amount in a step does not count as the last request of a second."""


class ChannelLoop:
    """Advances clients under Kafka's rule with these limits per second. `cap_ms` None: a delay has no cap (bytes)."""

    def __init__(
        self,
        limit: Reals,
        clients: int,
        samples: int = 11,
        window_ms: int = 1000,
        cap_ms: int | None = 1000,
    ) -> None:
        self._limit = limit
        self._samples, self._window_ms = samples, window_ms
        self._rates = SampledRates(len(limit), samples, window_ms)
        self._cap_ms = np.inf if cap_ms is None else float(cap_ms)
        # Connections that are muted, by the step in which they return.
        self._slots = 1 if cap_ms is None else ceil(cap_ms * STEPS / 1000) + 2
        self._away = np.zeros((clients, self._slots))
        self._seen = np.full(len(limit), -1, np.int64)  # the second that each bucket saw last
        self._last_step = np.full(len(limit), STEPS)  # of that second: the last in which any passed

    def undelayed(self, recorded: OpenLoop) -> Flags:
        """Return the buckets whose rate never exceeds the limit."""
        return recorded.passes_samples(self._limit, self._samples, self._window_ms)

    def advance(self, now: BucketSecond, delays: DelayCounts) -> tuple[Reals, Reals, Flags]:
        """Return what each client may send, by how much its clock advances, and that no request waits."""
        everything = now.everything()
        accepted = self._accept(now, everything, delays)
        self._record(now, accepted)
        clock = np.where(accepted < everything, now.clock_of(accepted), 1.0)
        return accepted, clock, np.zeros(len(clock), bool)

    def _accept(self, now: BucketSecond, everything: Reals, delays: DelayCounts) -> Reals:
        accepted = everything.copy()
        at_ms = now.second * 1000
        limit = self._limit[now.bucket]
        wanted = now.by_bucket(everything)
        rested = self._seen[now.bucket] < now.second - 1
        self._away[now.client[rested[now.of_client]]] = 0.0
        self._seen[now.bucket] = now.second
        self._last_step[now.bucket] = STEPS
        sums, span_ms = self._rates.totals(now.bucket, at_ms)
        later, later_ms = self._rates.totals(now.bucket, at_ms + 999)
        # If every request passes, the rate is highest at one of the second's ends.
        over = (sums > limit * span_ms / 1000) | (later + wanted > limit * later_ms / 1000)
        over |= sums + wanted > limit * (span_ms + 1000) / 1000
        over |= now.by_bucket(self._away[now.client].sum(axis=1)) > 0
        if not over.any():
            return accepted
        which = np.flatnonzero(over[now.of_client])
        client, cost = now.client[which], now.cost[which]
        rank = (np.cumsum(over) - 1)[now.of_client[which]]
        limit, sums, later = limit[over], sums[over], later[over]
        expires_s = (self._rates.expiry_ms(now.bucket[over], at_ms[over]) - at_ms[over]) / 1000
        connections = now.connections[which]
        pace = everything[which] / connections  # of one connection
        own_ms = np.where(pace > 0, now.own_ms[which], np.inf)
        away = self._away[client]
        gone, every = away.sum(axis=1), np.arange(len(which))
        passed = np.zeros(len(limit))
        advanced = np.zeros(len(which))
        for step in range(STEPS):
            from_s = step * _STEP_S
            slot = (now.second[over][rank] * STEPS + step) % self._slots
            gone -= away[every, slot]
            away[every, slot] = 0.0  # these return now
            here = np.maximum(connections - gone, 0.0)
            free_pace = np.bincount(rank, pace * here)
            old = from_s < expires_s
            base = np.where(old, sums, later)
            # `later` was taken at 999 ms.
            base_ms = np.where(old, span_ms[over], later_ms[over] - 999) + from_s * 1000
            delay_ms = (base + passed) / limit * 1000 - base_ms
            # Until the rate reaches the limit all requests pass.
            growth = np.maximum(free_pace / limit - 1, 1e-12)
            free_s = np.clip(-delay_ms / 1000 / growth, 0.0, _STEP_S)
            left_ms = (_STEP_S - free_s) * 1000
            work = np.bincount(rank, np.where(pace > 0, cost * here * 1000, 0.0))
            mean_own_ms = work / np.maximum(free_pace, 1e-12)
            ceiling_ms = np.maximum(self._cap_ms, mean_own_ms)
            begun_ms = np.maximum(delay_ms, 0.0)
            delay_ms = _settle(begun_ms, left_ms, work / limit, mean_own_ms, ceiling_ms)
            delay_ms = np.maximum(delay_ms, (begun_ms + delay_ms) / 2)  # while it falls
            muted_ms = np.minimum(delay_ms, self._cap_ms)[rank]
            cycle_ms = now.cycle_ms(which, muted_ms)
            limited = np.minimum(cost * here * 1000 / cycle_ms, pace * here) * left_ms[rank] / 1000
            # Connections that are muted for longer than a step leave, and return when it is over.
            # On average they leave in the middle of a step, and they return at the beginning of one.
            steps = np.round((cycle_ms - own_ms) / (_STEP_S * 1000) + 0.5)
            leaves = np.where(cycle_ms - own_ms >= _STEP_S * 500, steps, 0).clip(0, self._slots - 1)
            leaving = np.flatnonzero((leaves > 0) & (pace > 0) & (left_ms[rank] > 0))
            some = here[leaving] * (1 - np.exp(-left_ms[rank][leaving] / own_ms[leaving]))
            limited[leaving] = some * cost[leaving]
            back = (slot[leaving] + leaves[leaving].astype(np.int64)) % self._slots
            away[leaving, back] += some
            gone[leaving] += some
            done = np.minimum(pace * here * free_s[rank] + limited, everything[which] - advanced)
            throttled = (muted_ms >= MIN_DELAY_MS) & (limited > 0)
            delays.add(client[throttled], muted_ms[throttled], limited[throttled] / cost[throttled])
            some_passed = np.bincount(rank, done)
            self._last_step[now.bucket[over]] = np.where(
                some_passed > _SOME, step + 1, self._last_step[now.bucket[over]] if step else 0
            )
            passed += some_passed
            advanced += done
        self._away[client] = away
        accepted[which] = np.minimum(advanced, accepted[which])
        return accepted

    def _record(self, now: BucketSecond, accepted: Reals) -> None:
        """Record what was accepted in the second: the last request counts, because its window lasts as long."""
        amount = now.by_bucket(accepted)
        some = amount > 0
        requests = now.by_bucket(accepted / now.cost)[some]
        steps = self._last_step[now.bucket[some]]
        last_s = np.where(steps == STEPS, 1 - 0.5 / np.maximum(requests, 1), (steps - 0.5) / STEPS)
        last_ms = now.second[some] * 1000 + np.floor(np.maximum(last_s, 0.0) * 1000).astype(
            np.int64
        )
        self._rates.record(now.bucket[some], amount[some], last_ms)


def _settle(
    delay_ms: Reals, step_ms: Reals, pace_ms: Reals, own_ms: Reals, ceiling_ms: Reals
) -> Reals:
    """Return the delay after `step_ms`. It grows by step_ms * (pace_ms / x - 1), where x is the delay at the end, at
    least `own_ms` and at most `ceiling_ms`, and `pace_ms` / x is the rate by the limit.
    """
    base = delay_ms - step_ms
    free = base + step_ms * pace_ms / np.maximum(own_ms, 1e-9)
    capped = base + step_ms * pace_ms / ceiling_ms
    between = (base + np.sqrt(base**2 + 4 * step_ms * pace_ms)) / 2
    settled = np.where(free <= own_ms, free, np.where(capped >= ceiling_ms, capped, between))
    return np.maximum(settled, 0.0)
