"""The figures of a month on a cluster: how they are told, and what must be equal."""

import json
from pathlib import Path

import pytest

from bench.harness import BenchError
from bench.pipeline.cluster_bench import ClusterBench, Figures, together
from bench.pipeline.large import _check
from bench.pipeline.large_report import INGEST, Found, section

GIB = 1 << 30
MADE = {
    "entity": 4_000_000,
    "api": 4_000_000,
    "topic": 1_000_000,
    "instance": 1_000_000,
    "requests": 70,
    "files": 500,
    "bytes": 10_000_000,
    "seconds": 9.0,
}


def figures(name: str, days: int, seconds: float, cpu_s: float) -> Figures:
    """Return a command's figures; those of memory and files follow from its days."""
    return Figures(name, days, seconds, cpu_s, days * GIB, GIB, 3 * GIB, GIB, 10, 7 * days)


def played(*found: Figures) -> ClusterBench:
    """Return a cluster on which these commands have run."""
    return ClusterBench("spark://127.0.0.1:7077", Path(), {}, list(found))


def test_runs_of_one_command_are_added() -> None:
    """But not their memory, which is that of the largest."""
    runs = [figures(INGEST, 1, 10.0, 20.0), figures(INGEST, 2, 12.0, 22.0)]

    assert together(runs) == Figures(INGEST, 2, 22.0, 42.0, 2 * GIB, GIB, 6 * GIB, 2 * GIB, 20, 21)


def test_growth_is_told_by_days_and_by_rows_and_by_workers() -> None:
    """A command that costs more for each row of the larger input is marked, and so is a second worker in vain."""
    month = played(
        *(figures(INGEST, day, 10.0, 20.0) for day in (1, 2)),
        figures("usage", 1, 5.0, 10.0),
        figures(INGEST, 3, 10.0, 23.0),
        figures("usage", 3, 9.0, 30.0),
    )

    found = Found(3, MADE, MADE)
    found.month = month
    found.two_workers = played(figures(INGEST, 1, 10.0, 20.0), figures("usage", 1, 5.0, 10.0))
    found.dense = played(figures(INGEST, 1, 30.0, 60.0), figures("usage", 1, 9.0, 40.0))
    found.one_worker = played(figures(INGEST, 1, 18.0, 20.0), figures("usage", 1, 6.0, 10.0))
    text = section(found, {"date": "today"})

    assert "| `ingest` | 30 | 63 | 3.00 GiB | 1.00 GiB | 9.00 GiB | 3.00 GiB | 30 | 42 |" in text
    assert "| `usage` | 9 | 30 | 3.00 GiB |" in text
    assert "| `ingest` | first 1 days: 20 s | last 1 days: 23 s | x 1.0 | x 1.15 | 1.15 |" in text
    assert "| `usage` | 1 days: 10 s | 3 days: 30 s | x 3.0 | x 3.00 | 1.00 | met |" in text
    assert "| `usage` | 3.3 M rows: 10 s | 10.0 M: 40 s | x 3.0 | x 4.00 | 1.33 |" in text
    assert text.count("| **NOT MET** |") == 3
    assert "| `ingest` | 18.0 | 10.0 | 1.80 | met |" in text
    assert "| `usage` | 6.0 | 5.0 | 1.20 | **NOT MET** |" in text
    assert "`ingest` takes 6.3 s of CPU for a million rows" in text


def test_tables_that_lack_a_request_end_the_benchmark() -> None:
    """What was made must be found, and nothing may be missing."""
    whole = {"usage": [{"requests": 30}, {"requests": 40}], "quality": {"lost": 0, "lines": 0}}
    _check(json.dumps(whole), MADE)

    for usage, quality in (([{"requests": 69}], {}), (whole["usage"], {"lost": 1})):
        with pytest.raises(BenchError, match="expected 70 and nothing missing"):
            _check(json.dumps({"usage": usage, "quality": quality}), MADE)
