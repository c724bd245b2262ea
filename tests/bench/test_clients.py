"""The bench with real clients: the section that it writes, and its cases."""

import pytest

from bench import clients_report as report
from bench.clients_report import BASE, CASES, choose
from bench.figures import Sample, Samples
from bench.variants import HAPROXY, SLUICE


def sample(variant: str, cpu_us: float, nth: int = 0) -> Sample:
    """Return a run of the first case: 40,000 records in 8 s."""
    return Sample(CASES[0].name, variant, nth, 40_000, 8.0, 4e7, cpu_us, 0, 0)


def test_a_ratio_is_that_of_the_same_round() -> None:
    """The median of the rounds' ratios, not the ratio of the medians."""
    rounds = [(10.0, 5.0), (30.0, 10.0), (20.0, 16.0)]
    samples = Samples(
        each
        for nth, (ours, theirs) in enumerate(rounds)
        for each in (sample(SLUICE, ours, nth), sample(HAPROXY, theirs, nth))
    )
    text = report.section(samples, [CASES[0]], [SLUICE, HAPROXY], {"date": "today"})
    assert "times HAProxy's | ≤ 1.7 x |  | 2.00 (1.25 to 3.00) | **NOT MET** |" in text
    assert "| produce 1 KB at 5,000/s | haproxy | 10.00 (5.00 to 16.00) |  | 5,000 |" in text
    assert "| date | today |" in text
    assert "base" not in text


def test_with_a_base_there_is_a_column_for_it() -> None:
    """A variant is not compared with itself."""
    samples = Samples([sample(SLUICE, 5.0), sample(BASE, 10.0)])
    text = report.section(samples, [CASES[0]], [SLUICE, BASE], {})
    assert "| sluice | 5.00 | 0.50 | 5,000 |" in text
    assert "| base | 10.00 |  | 5,000 |" in text


def test_an_unknown_case_is_an_error_that_names_the_known_ones() -> None:
    """An empty list means all."""
    assert choose("") == list(CASES)
    assert [case.name for case in choose("consume-1k")] == ["consume-1k"]
    with pytest.raises(ValueError, match=r"unknown case nonsense; known: consume-100, "):
        choose("nonsense")
