"""The polite producer alone, beside a noisy one, and beside a noisy one with a quota.

Rules:
- A sample is what happened between two marks: two Ticks that each client told on cue.
- A figure of an arm is the median of its samples: one that the machine disturbed changes little.
"""

from __future__ import annotations

from enum import Enum
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

from proxy.demo.figures import Latencies

if TYPE_CHECKING:
    from proxy.demo.messages import Tick


class Arm(Enum):
    """What stands beside the polite producer."""

    ALONE = "nobody"
    WITHOUT = "noisy, no quota"
    WITH = "noisy, quota"


class Sample(NamedTuple):
    """One measured time."""

    records_per_s: float
    """Of the polite one, acknowledged."""
    p50_ms: float
    p99_ms: float
    """Of the polite one, from handing over to acknowledgement."""
    noisy_per_s: float
    """Requests of the noisy one, answered."""


class Marks(NamedTuple):
    """Both clients at one moment."""

    polite: Tick
    noisy: Tick


def sample(before: Marks, after: Marks) -> Sample:
    """Return what happened in between. Raises ValueError when the polite one got nothing done."""
    latencies = Latencies(after.polite.latency)
    p50_ms, p99_ms = (latencies.maybe_percentile_ms(percent) for percent in (50, 99))
    if p50_ms is None or p99_ms is None:
        raise ValueError("nothing of the polite producer was acknowledged")
    acked = after.polite.acked - before.polite.acked
    answered = after.noisy.answered - before.noisy.answered
    return Sample(
        records_per_s=_per_s(acked, after.polite.at_ns - before.polite.at_ns),
        p50_ms=p50_ms,
        p99_ms=p99_ms,
        noisy_per_s=_per_s(answered, after.noisy.answered_at_ns - before.noisy.answered_at_ns),
    )


class Comparison:
    """All samples of all arms."""

    def __init__(self, limit_per_s: float) -> None:
        self.limit_per_s = limit_per_s
        """The noisy one's quota."""
        self._samples: dict[Arm, list[Sample]] = {arm: [] for arm in Arm}
        self._others: list[float] = []

    def add(self, arm: Arm, taken: Sample, others: float | None = None) -> None:
        """Enter one; `others` is the share of the machine that other programs had, if known."""
        self._samples[arm].append(taken)
        # While the noisy one floods, everything is busy with it.
        if others is not None and arm is not Arm.WITHOUT:
            self._others.append(others)

    def samples(self, arm: Arm) -> list[Sample]:
        """Return an arm's samples, in the order they were taken."""
        return self._samples[arm]

    def maybe_typical(self, arm: Arm) -> Sample | None:
        """Return the medians of an arm; None before its first sample."""
        samples = self._samples[arm]
        return Sample(*map(median, zip(*samples, strict=True))) if samples else None

    def others(self) -> float:
        """Return the share of the machine that other programs had, 0 to 1; 0 where it is not known."""
        return median(self._others) if self._others else 0.0

    def unrest(self) -> float:
        """Return by how much the polite one's median latency differs from sample to sample while it
        is alone: the distance of its quartiles, in parts of its median. 0 with fewer than four
        samples: nothing is known then.
        """
        alone = [taken.p50_ms for taken in self._samples[Arm.ALONE]]
        if len(alone) < 4:
            return 0.0
        lower, middle, upper = quantiles(alone, n=4)
        return (upper - lower) / middle


class Progress(NamedTuple):
    """How far it is."""

    comparison: Comparison
    arm: Arm
    """Of the last sample."""
    turn: int
    """Counted from 1."""
    turns: int


def _per_s(count: int, in_ns: int) -> float:
    return count * 1e9 / in_ns if in_ns > 0 else 0.0
