"""Samples of the runs, and the figures computed from them.

A sample is one run of one shape through one variant in one round. A figure that compares two variants is computed
inside each round first; then the median over the rounds is taken, so that what slows a whole round cancels out.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bench.harness.figures import Spread, maybe_spread


@dataclass(frozen=True, slots=True)
class Sample:
    """One run. `cpu_us` is the CPU time of the proxy's processes per request; 0 for `direct`."""

    shape: str
    variant: str
    round: int
    requests: float
    seconds: float
    bytes: float
    cpu_us: float
    p50_us: float
    p99_us: float

    @property
    def requests_per_second(self) -> float:
        """Return the throughput in requests per second."""
        return self.requests / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        """Return the throughput in 10^6 bytes per second, both directions together."""
        return self.bytes / self.seconds / 1e6


@dataclass(frozen=True, slots=True)
class Footprint:
    """The cost of a variant without load: bytes, seconds, percent of one core."""

    variant: str
    accept_seconds: tuple[float, ...]
    answer_seconds: tuple[float, ...]
    resident_bytes: dict[int, int]  # by idle pairs
    idle_cpu_percent: float

    @property
    def bytes_per_pair(self) -> float:
        """Return the memory of an idle pair: the slope from no pair to the most pairs; 0 if there were none."""
        pairs = max(self.resident_bytes)
        return (self.resident_bytes[pairs] - self.resident_bytes[0]) / pairs if pairs else 0.0


class Samples:
    """All runs, by shape and variant."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self._by_key: dict[tuple[str, str], dict[int, Sample]] = {}
        self.failures: dict[tuple[str, str], str] = {}
        for sample in samples:
            self.add(sample)

    def add(self, sample: Sample) -> None:
        """Add a run."""
        self._by_key.setdefault((sample.shape, sample.variant), {})[sample.round] = sample

    def all(self) -> list[Sample]:
        """Return every sample, in the order of arrival within shape and variant."""
        return [sample for rounds in self._by_key.values() for sample in rounds.values()]

    def of(self, shape: str, variant: str, what: Callable[[Sample], float]) -> Spread | None:
        """Return a figure of one variant over the rounds; None without runs."""
        return maybe_spread(
            what(sample) for sample in self._by_key.get((shape, variant), {}).values()
        )

    def between(
        self, shape: str, one: str, other: str, how: Callable[[Sample, Sample], float]
    ) -> Spread | None:
        """Return a figure of two variants, computed in each round that has both; None without such rounds."""
        ours, theirs = self._by_key.get((shape, one), {}), self._by_key.get((shape, other), {})
        return maybe_spread(how(ours[n], theirs[n]) for n in ours if n in theirs)

    def efficiency(self, shape: str, variant: str, yardstick: str) -> Spread | None:
        """Return the CPU time of the yardstick divided by the variant's; above 1 the variant needs less."""
        return self.between(
            shape,
            variant,
            yardstick,
            lambda ours, theirs: theirs.cpu_us / ours.cpu_us if ours.cpu_us else 0.0,
        )

    def added_p50_us(self, shape: str, variant: str, direct: str) -> Spread | None:
        """Return the median latency that the variant adds to a direct connection, µs."""
        return self.between(
            shape, variant, direct, lambda ours, theirs: ours.p50_us - theirs.p50_us
        )

    def added_p99_us(self, shape: str, variant: str, direct: str) -> Spread | None:
        """Return the 99th percentile of the latency minus that of a direct connection, µs."""
        return self.between(
            shape, variant, direct, lambda ours, theirs: ours.p99_us - theirs.p99_us
        )
