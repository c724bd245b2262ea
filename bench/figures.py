"""Samples and what is computed from them.

Rules: one sample is one run of one shape through one variant in one round. Whatever compares two
variants is computed inside each round first, then the median over rounds is taken: what slows a
whole round down cancels out. A spread is the least and the greatest, never left away.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True, slots=True)
class Sample:
    """One run. `cpu_us` is the CPU time of the proxy's tree per request; 0 for direct."""

    shape: str
    variant: str
    round: int
    requests: int
    seconds: float
    bytes: int
    cpu_us: float
    p50_us: float
    p99_us: float

    @property
    def requests_per_second(self) -> float:
        """Throughput in requests."""
        return self.requests / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        """Throughput in 10^6 bytes, both directions together."""
        return self.bytes / self.seconds / 1e6


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the least and greatest of what it was taken from."""

    median: float
    least: float
    greatest: float

    def text(self, digits: int) -> str:
        """`median (least to greatest)`; the bracket is left out when all are equal."""
        low, middle, high = (
            f"{value:,.{digits}f}" for value in (self.least, self.median, self.greatest)
        )
        return middle if low == high else f"{middle} ({low} to {high})"


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a variant costs before any work: bytes, seconds, percent of one core."""

    variant: str
    accept_seconds: tuple[float, ...]
    answer_seconds: tuple[float, ...]
    resident_bytes: dict[int, int]  # by idle pairs
    idle_cpu_percent: float

    @property
    def bytes_per_pair(self) -> float:
        """The slope from no pair to the most pairs tried; 0 when none were."""
        most = max(self.resident_bytes)
        return (self.resident_bytes[most] - self.resident_bytes[0]) / most if most else 0.0


def spread(values: Iterable[float]) -> Spread | None:
    """Median, least and greatest; None of nothing."""
    known = sorted(values)
    return Spread(statistics.median(known), known[0], known[-1]) if known else None


class Samples:
    """All runs, asked by shape and variant."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self._by_key: dict[tuple[str, str], dict[int, Sample]] = {}
        self.failures: dict[tuple[str, str], str] = {}
        for sample in samples:
            self.add(sample)

    def add(self, sample: Sample) -> None:
        """One more."""
        self._by_key.setdefault((sample.shape, sample.variant), {})[sample.round] = sample

    def all(self) -> list[Sample]:
        """Every sample, in the order of arrival within shape and variant."""
        return [sample for rounds in self._by_key.values() for sample in rounds.values()]

    def of(self, shape: str, variant: str, what: Callable[[Sample], float]) -> Spread | None:
        """A figure of one variant over the rounds."""
        return spread(what(sample) for sample in self._by_key.get((shape, variant), {}).values())

    def between(
        self, shape: str, one: str, other: str, how: Callable[[Sample, Sample], float]
    ) -> Spread | None:
        """A figure of two variants, taken in each round that has both."""
        ours, theirs = self._by_key.get((shape, one), {}), self._by_key.get((shape, other), {})
        return spread(how(ours[n], theirs[n]) for n in ours if n in theirs)

    def efficiency(self, shape: str, variant: str, yardstick: str) -> Spread | None:
        """CPU time of the yardstick divided by the variant's: above 1 the variant needs less."""
        return self.between(
            shape,
            variant,
            yardstick,
            lambda ours, theirs: theirs.cpu_us / ours.cpu_us if ours.cpu_us else 0.0,
        )

    def added_p50_us(self, shape: str, variant: str, direct: str) -> Spread | None:
        """Median latency that the variant adds to a direct connection."""
        return self.between(
            shape, variant, direct, lambda ours, theirs: ours.p50_us - theirs.p50_us
        )

    def added_p99_us(self, shape: str, variant: str, direct: str) -> Spread | None:
        """The same at the 99th percentile."""
        return self.between(
            shape, variant, direct, lambda ours, theirs: ours.p99_us - theirs.p99_us
        )
