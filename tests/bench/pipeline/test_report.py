"""The section of RESULTS.md about the pipeline."""

from bench.pipeline.report import AGAIN, FIRST, LARGE, Found, Job, section
from bench.pipeline.run import Timed

GIB = 2**30


def job(name: str, warm_s: float, large_s: float) -> Job:
    """Return a job of five and twenty million rows."""
    spark = {
        FIRST: Timed(FIRST, [20.0], 2 * GIB),
        AGAIN: Timed(AGAIN, [warm_s, warm_s + 1, warm_s - 0.5], 2 * GIB),
        LARGE: Timed(LARGE, [large_s], 3 * GIB),
    }
    duck = {size: Timed(name, [1.0, 0.5], GIB) for size in (AGAIN, LARGE)}
    return Job(name, 5_000_000, 20_000_000, spark, Timed(AGAIN, [2 * warm_s], GIB), duck)


def test_goals_are_judged_and_misses_are_marked() -> None:
    """`usage` meets its goals; `recommend` is too slow and grows too fast."""
    jobs = [job("usage", 4.0, 17.6), job("recommend", 8.1, 40.0)]
    text = section(Found(jobs, {}, {"date": "today"}))

    assert (
        "| `usage` | 5.0 M rows | 20.0 | 4.0 (3.5 to 5.0) | 1,250,000 | 2.0 GiB | ≤ 4 s: met |"
        in text
    )
    assert "≤ 8 s: **NOT MET**" in text
    assert "| `usage` | 20.0 M rows | 17.6 | 4.4 | 3.0 GiB | met |" in text
    assert "| `recommend` | 20.0 M rows | 40.0 | 4.9 | 3.0 GiB | **NOT MET** |" in text
    assert "| `usage` | 8.0 | 4.0 | 2.0 |" in text
    assert "| `usage` | 5.0 M rows | 3.5 | 0.50 | 7.0 | 1.0 GiB |" in text
