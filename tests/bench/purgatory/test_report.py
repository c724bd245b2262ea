"""Its section of RESULTS.md."""

from bench.purgatory.figures import KAFKA, SOURCE_RATE, WHEEL, Found, Run
from bench.purgatory.report import section


def found():
    """Two candidates, one of which saturates; a third left out."""
    runs = [
        Run(WHEEL, "low", SOURCE_RATE, 1_000_000, 104_000, 104_000, 0.4, 3.9, 2e7, 1500, 0.08),
        Run(WHEEL, "low", 400_000, 1_000_000, 400_000, 250_000, 0.99, 3.9, 3e7, 15_000, 0.08),
        Run(KAFKA, "low", SOURCE_RATE, 1_000_000, 104_000, 103_900, 0.5, 4.4, 2.2e8, gc_ms=37.4),
    ]
    return Found(runs, {"compiled": "no C compiler: a | b"}, {"date": "today"}, loop_cpu_us=1.2)


def test_every_table_has_as_many_cells_in_each_row():
    """A row that is too short would shift figures under the wrong heading."""
    tables = [block for block in section(found()).split("\n\n") if block.startswith("|")]
    assert len(tables) == 6
    for block in tables:
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_what_was_not_held_is_bold_and_what_was_not_measured_empty():
    """Kafka's says nothing of lateness, and has no blocks."""
    text = section(found())
    assert "| 400,000 | **250,000** | 0.99 | 3.90 | 15.0 | 30 |  |  | 1,000,000 |" in text
    assert "| 104,000 | 103,900 | 0.50 | 4.40 |  | 220 | 37 |  | 1,000,000 |" in text
    assert "20 / 60 ms, 8% expire" in text


def test_the_short_table_has_the_highest_rate_held():
    """And the CPU where the source's own design ended; nothing for a load that was not run."""
    assert "| hierarchical, dicts (Sluice) | 105,000 | 3.90 | none |  |" in section(found())


def test_a_candidate_left_out_is_reported_with_its_reason():
    """In full, without breaking the table."""
    text = section(found())
    assert "| compiled | no C compiler: a / b |" in text
    assert "1.20 µs are the benchmark itself" in text
    assert "Left out" not in section(Found(facts={"date": "today"}))
