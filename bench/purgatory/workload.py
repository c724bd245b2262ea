"""What is to come in a run: when requests arrive and how long each takes, drawn as Kafka's benchmark draws it.

Source: Kafka's `TestPurgatoryPerformance` (3.9).

Rules:
- Intervals are exponential, in whole milliseconds, what is cut off carried to the next; times to complete are
  log-normal, cut to whole milliseconds. A million of each are drawn, and a run draws from those, uniformly.
- Everything is drawn before a run and read by it from two files, so that every candidate has the same to do.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random
    from pathlib import Path

TIMEOUT_MS: Final = 200
KEYS: Final = 3
KEY_SPACE: Final = 100
SAMPLES: Final = 1_000_000
THREE_QUARTERS: Final = 0.67449
"""How many standard deviations above the mean three quarters of a normal distribution end."""


@dataclass(frozen=True, slots=True)
class Load:
    """One of the source's two cases: median and third quartile of the time to complete, in milliseconds."""

    name: str
    pct50_ms: int
    pct75_ms: int


LOADS = (Load("low", 20, 60), Load("high", 200, 400))


@dataclass(frozen=True, slots=True)
class Workload:
    """What one run plays. `slots` are pairs: a millisecond, how many requests arrive in it."""

    slots: array[int]
    latencies_ms: array[int]

    @property
    def requests(self) -> int:
        """How many."""
        return len(self.latencies_ms)

    @property
    def target(self) -> float:
        """Requests per second, as they were drawn."""
        return self.requests * 1000 / max(1, self.slots[-2])

    def pairs(self) -> list[tuple[int, int]]:
        """The slots as tuples."""
        return list(zip(self.slots[::2], self.slots[1::2], strict=True))

    def first(self, requests: int) -> Workload:
        """Its beginning: so many requests, and what else arrives in the last one's millisecond."""
        done = 0
        for nth in range(0, len(self.slots), 2):
            done += self.slots[nth + 1]
            if done >= requests:
                return Workload(self.slots[: nth + 2], self.latencies_ms[:done])
        return self

    def save(self, stem: Path) -> None:
        """Write both files."""
        for suffix, values in ((".slots", self.slots), (".latencies", self.latencies_ms)):
            with stem.with_suffix(suffix).open("wb") as file:
                values.tofile(file)


def saved(stem: Path) -> Workload:
    """Read what `save` wrote."""
    slots, latencies_ms = array("q"), array("i")
    slots.frombytes(stem.with_suffix(".slots").read_bytes())
    latencies_ms.frombytes(stem.with_suffix(".latencies").read_bytes())
    return Workload(slots, latencies_ms)


def latency_samples(load: Load, order: random.Random, count: int = SAMPLES) -> array[int]:
    """Times to complete, in milliseconds."""
    mu = math.log(load.pct50_ms)
    sigma = (math.log(load.pct75_ms) - mu) / THREE_QUARTERS
    draw = order.lognormvariate
    most = 2**31 - 1
    return array("i", (min(most, int(draw(mu, sigma))) for _ in range(count)))


def interval_samples(rate: int, order: random.Random, count: int = SAMPLES) -> array[int]:
    """Milliseconds between requests, whole; most are 0 at these rates."""
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
    """A run of so many requests."""
    slots = array("q")
    arrival_ms, arrivals = 0, []
    for interval in order.choices(intervals, k=requests):
        arrival_ms += interval
        arrivals.append(arrival_ms)
    for at_ms, group in groupby(arrivals):
        slots.extend((at_ms, sum(1 for _ in group)))
    return Workload(slots, array("i", order.choices(latencies, k=requests)))


def draw_keys(order: random.Random) -> tuple[str, ...]:
    """The names that every request of a run is watched by."""
    return tuple(f"fakeKey{order.randrange(KEY_SPACE)}" for _ in range(KEYS))
