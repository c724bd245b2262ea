"""Samples, spreads and what compares two variants."""

from bench.figures import Sample, Samples
from bench.harness.figures import Spread


def sample(variant: str, nth: int, cpu_us: float, p50_us: float = 100.0) -> Sample:
    """A run of shape `s`."""
    return Sample("s", variant, nth, 1000, 0.5, 2_000_000, cpu_us, p50_us, 2 * p50_us)


def test_efficiency_is_taken_inside_each_round() -> None:
    """A round twice as slow for both does not move the ratio."""
    samples = Samples(
        [sample("a", 0, 10.0), sample("b", 0, 5.0), sample("a", 1, 20.0), sample("b", 1, 10.0)]
    )
    assert samples.efficiency("s", "a", "b") == Spread(0.5, 0.5, 0.5)


def test_a_round_without_the_other_variant_does_not_count() -> None:
    """Only rounds that have both are compared."""
    samples = Samples([sample("a", 0, 10.0), sample("b", 1, 5.0)])
    assert samples.efficiency("s", "a", "b") is None


def test_added_latency_is_minus_direct_of_the_same_round() -> None:
    """Both percentiles are differences within the round."""
    samples = Samples([sample("a", 0, 1.0, 150.0), sample("direct", 0, 0.0, 100.0)])
    assert samples.added_p50_us("s", "a", "direct") == Spread(50.0, 50.0, 50.0)
    assert samples.added_p99_us("s", "a", "direct") == Spread(100.0, 100.0, 100.0)
