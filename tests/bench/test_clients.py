"""The bench with real clients: the section that it writes, and its cases."""

import subprocess
import sys
from pathlib import Path

from bench import clients_report as report
from bench.clients_report import CASES, choose
from bench.figures import Sample, Samples
from bench.kafka_clients import Client
from bench.variants import COMPILED, DIRECT, HAPROXY


def sample(variant: str, cpu_us: float, nth: int = 0) -> Sample:
    """Return a run of the first case: 40,000 records in 8 s."""
    return Sample(CASES[0].name, variant, nth, 40_000, 8.0, 4e7, cpu_us, 0, 0)


def test_a_ratio_is_that_of_the_same_round() -> None:
    """The median of the rounds' ratios, not the ratio of the medians."""
    rounds = [(10.0, 5.0), (30.0, 10.0), (20.0, 16.0)]
    samples = Samples(
        each
        for nth, (ours, theirs) in enumerate(rounds)
        for each in (sample(COMPILED, ours, nth), sample(HAPROXY, theirs, nth))
    )
    text = report.section(samples, [CASES[0]], [COMPILED, HAPROXY], {"date": "today"})
    assert "times HAProxy's | ≤ 1.7 x |  | 2.00 (1.25 to 3.00) | **NOT MET** |" in text
    assert "| produce 1 KB at 5,000/s | haproxy | 10.00 (5.00 to 16.00) |  | 5,000 |  |" in text
    assert "base" not in text


def test_the_speed_of_a_consumer_is_compared_with_that_without_a_proxy() -> None:
    """The goal is that of the compiled build; without a proxy there is no CPU of one."""
    consume = choose("consume")[0]
    samples = Samples(
        Sample(consume.name, name, 0, 1000, took_s, 1e6, cpu_us, 0, 0)
        for name, took_s, cpu_us in ((DIRECT, 1.0, 0), (COMPILED, 1.25, 1.5), (HAPROXY, 1.0, 1.0))
    )
    text = report.section(samples, [consume], [DIRECT, COMPILED, HAPROXY], {})
    assert "times those without a proxy | ≥ 0.95 x |  | 0.80 | **NOT MET** |" in text
    assert "| consume 1 KB at full speed | direct |  |  | 1,000 |  |" in text
    assert "| consume 1 KB at full speed | sluice-compiled | 1.50 | 1.50 | 800 | 0.80 |" in text


def test_a_consumer_says_what_it_fetched(tmp_path: Path) -> None:
    """The line that ConsumerPerformance prints at its end: records, and the milliseconds of its fetches."""
    output = tmp_path / "client-1"
    output.write_text(
        "2026-11-25 22:00, 2026-11-25 22:00, 953.6, 221.3, 1000000, 232018.6, 310, 4000, 238.4, 250000.0\n"
    )
    ended = subprocess.Popen([sys.executable, "-c", ""])

    with Client(ended, output) as client:
        assert client.wait(30) == 0
        assert client.fetched() == (1_000_000, 4.0)
