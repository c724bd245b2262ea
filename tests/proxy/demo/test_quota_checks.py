"""Checks of the quota: a busy machine fails no check that its load may explain."""

import pytest

from proxy.demo.checks import Evidence, Finding
from proxy.demo.experiment import Comparison, Condition, Sample
from tests.support.pages.demo_evidence import ALONE, AS_ALONE, SLOWED, compared, findings


def told_of(comparison: Comparison) -> dict[str, Finding]:
    """Return the findings about a comparison, by their names."""
    return findings(Evidence({}, {}, 0, comparison=comparison))


@pytest.mark.parametrize("held", [AS_ALONE, AS_ALONE._replace(p50_ms=70)], ids=["good", "bad"])
def test_a_busy_machine_judges_no_latency(held: Sample) -> None:
    """When the polite producer alone varies by more than a fifth, its latencies are shown, not judged."""
    comparison = Comparison(limit_per_s=100)
    for p50_ms in (7.0, 9.0, 12.0, 8.0, 15.0):
        comparison.add(Condition.ALONE, ALONE._replace(p50_ms=p50_ms))
        comparison.add(Condition.NO_QUOTA, SLOWED)
        comparison.add(Condition.QUOTA, held)

    told = told_of(comparison)

    for name in (
        "without a quota the polite producer is slower",
        "with a quota the polite producer is as fast as alone",
    ):
        assert told[name].holds is None
        assert "too busy" in told[name].detail
    assert told["the noisy producer is held to its quota"].holds


def test_a_bound_that_other_programs_may_have_broken_is_not_judged() -> None:
    """On a machine that other programs use, a bound that holds passes; one that does not is not judged."""
    told = told_of(compared(quota=AS_ALONE._replace(p50_ms=8.0), others=0.4, rounds=5))

    assert told["without a quota the polite producer is slower"].holds
    assert told["with a quota the polite producer is as fast as alone"].holds is None
    assert "used 40% of" in told["with a quota the polite producer is as fast as alone"].detail


@pytest.mark.parametrize(
    ("noisy_per_s", "others", "verdict"),
    [
        (150.0, 0.4, None),
        (60.0, 0.4, None),
        (150.0, 0.0, False),
        (60.0, 0.0, False),
        (301.0, 0.4, False),
        (0.0, 0.4, False),
        (100.0, 0.4, True),
    ],
)
def test_a_rate_that_the_quotas_burst_allows_is_not_judged_on_a_busy_machine(
    *, noisy_per_s: float, others: float, verdict: bool | None
) -> None:
    """A client that stalled may catch up, by the burst and no more; on a quiet machine it may not."""
    quota = AS_ALONE._replace(noisy_per_s=noisy_per_s)
    told = told_of(compared(quota=quota, others=others, rounds=5))

    assert told["the noisy producer is held to its quota"].holds is verdict
