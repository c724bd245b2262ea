"""The workload of a run: when requests arrive and how long each takes, drawn as in `TestPurgatoryPerformance` (3.9).

- Intervals are exponential, in whole milliseconds; the remainder is added to the next interval. Times to complete are
  log-normal, truncated to whole milliseconds. A million of each are drawn; a run draws from those uniformly.
- A workload is drawn before the run, which reads it from two files. So every candidate has the same workload.
"""

from __future__ import annotations

import math
import random
from array import array
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

TIMEOUT_MS: Final = 200
KEYS: Final = 3
KEY_SPACE: Final = 100
SAMPLES: Final = 1_000_000
THREE_QUARTERS: Final = 0.67449
"""The third quartile of a normal distribution, in standard deviations above the mean."""


@dataclass(frozen=True, slots=True)
class Load:
    """A load of Kafka's benchmark: median and third quartile of the time to complete, in milliseconds."""

    name: str
    pct50_ms: int
    pct75_ms: int


LOADS = (Load("low", 20, 60), Load("high", 200, 400))


@dataclass(frozen=True, slots=True)
class Workload:
    """The requests of one run. `slots` are pairs: a millisecond, and how many requests arrive in it."""

    slots: array[int]
    latencies_ms: array[int]

    @property
    def requests(self) -> int:
        """Return the number of requests."""
        return len(self.latencies_ms)

    @property
    def target(self) -> float:
        """Return the requests per second that were drawn."""
        return self.requests * 1000 / max(1, self.slots[-2])

    def pairs(self) -> list[tuple[int, int]]:
        """Return the slots as tuples."""
        return list(zip(self.slots[::2], self.slots[1::2], strict=True))

    def first(self, requests: int) -> Workload:
        """Return the first requests: so many, and all others that arrive in the last one's millisecond."""
        done = 0
        for nth in range(0, len(self.slots), 2):
            done += self.slots[nth + 1]
            if done >= requests:
                return Workload(self.slots[: nth + 2], self.latencies_ms[:done])
        return self

    def save(self, stem: Path) -> None:
        """Write the two files."""
        for suffix, values in ((".slots", self.slots), (".latencies", self.latencies_ms)):
            with stem.with_suffix(suffix).open("wb") as file:
                values.tofile(file)


def saved(stem: Path) -> Workload:
    """Return the workload that `save` wrote."""
    slots, latencies_ms = array("q"), array("i")
    slots.frombytes(stem.with_suffix(".slots").read_bytes())
    latencies_ms.frombytes(stem.with_suffix(".latencies").read_bytes())
    return Workload(slots, latencies_ms)


def latency_samples(load: Load, order: random.Random, count: int = SAMPLES) -> array[int]:
    """Draw times to complete, in milliseconds."""
    mu = math.log(load.pct50_ms)
    sigma = (math.log(load.pct75_ms) - mu) / THREE_QUARTERS
    draw = order.lognormvariate
    return array("i", (min(2**31 - 1, int(draw(mu, sigma))) for _ in range(count)))


def interval_samples(rate: int, order: random.Random, count: int = SAMPLES) -> array[int]:
    """Draw whole milliseconds between requests; most are 0 at these rates."""
    draw, each_ms = order.expovariate, rate / 1000
    samples, residue = array("i"), 0.0
    for _ in range(count):
        interval = draw(each_ms) + residue
        whole = int(interval)
        residue = interval - whole
        samples.append(whole)
    return samples


def draw_workload(
    intervals: array[int], latencies: array[int], requests: int, order: random.Random
) -> Workload:
    """Draw a workload of so many requests from the samples."""
    slots = array("q")
    arrival_ms, arrivals = 0, []
    for interval in order.choices(intervals, k=requests):
        arrival_ms += interval
        arrivals.append(arrival_ms)
    for at_ms, group in groupby(arrivals):
        slots.extend((at_ms, sum(1 for _ in group)))
    return Workload(slots, array("i", order.choices(latencies, k=requests)))


def draw_keys(order: random.Random) -> tuple[str, ...]:
    """Draw the keys that every request of a run watches."""
    return tuple(f"fakeKey{order.randrange(KEY_SPACE)}" for _ in range(KEYS))
