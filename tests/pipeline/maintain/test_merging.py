"""Ranges of sequence numbers of many batches become few, without a gap more or less."""

from datetime import date

import pytest
from pyspark.sql import SparkSession

from pipeline.ingest.sequences import gaps
from pipeline.merging import merge_sequences
from pipeline.schema import SEQUENCES

FIRST, SECOND, THIRD = date(2025, 11, 21), date(2025, 11, 22), date(2025, 11, 23)
Range = tuple[date | None, int, int, int, int]
"""Day, first and last number, 1 if it has rows, and its batch."""


def merged(
    spark: SparkSession, ranges: list[Range], first_day: date | None = None, settled: int = 9
) -> tuple[set[Range], list[tuple[int, int]]]:
    """Return the merged ranges of one writer, and its gaps."""
    rows = [
        (
            "entity",
            day,
            day and 0,
            "pod",
            "b",
            first,
            last,
            (last - first + 1) * kind,
            first,
            last,
            batch,
        )
        for day, first, last, kind, batch in ranges
    ]
    found = merge_sequences(spark.createDataFrame(rows, SEQUENCES), first_day, settled).persist()
    left = [(row["first_seq"], row["last_seq"]) for row in gaps(found).collect()]
    return {
        (row["dt"], row["first_seq"], row["last_seq"], int(row["rows"] > 0), row["batch"])
        for row in found.collect()
    }, sorted(left)


@pytest.mark.parametrize(
    ("ranges", "first_day", "expected", "missing"),
    [
        pytest.param(
            [(FIRST, 1, 4, 1, 1), (FIRST, 9, 9, 1, 3), (FIRST, 5, 6, 1, 2), (FIRST, 10, 11, 1, 10)],
            None,
            {(FIRST, 1, 6, 1, 0), (FIRST, 9, 9, 1, 0), (FIRST, 10, 11, 1, 10)},
            [(7, 8)],
            id="those that go on are one, but not those of a batch that has not settled",
        ),
        pytest.param(
            [(FIRST, 1, 4, 1, 1), (None, 5, 5, 0, 1), (None, 5, 6, 0, 2), (FIRST, 7, 7, 1, 2)],
            None,
            {(FIRST, 1, 4, 1, 0), (None, 5, 6, 0, 0), (FIRST, 7, 7, 1, 0)},
            [],
            id="lines in quarantine stay apart from rows",
        ),
        pytest.param(
            [(FIRST, 3, 4, 1, 1), (None, 5, 5, 0, 1), (FIRST, 8, 9, 1, 1), (THIRD, 12, 13, 1, 2)],
            SECOND,
            {(FIRST, 1, 9, 1, 0), (THIRD, 12, 13, 1, 0)},
            [(10, 11)],
            id="days that are kept no longer leave no gap",
        ),
        pytest.param(
            [(FIRST, 1, 9, 1, 0), (SECOND, 10, 19, 1, 0), (THIRD, 20, 20, 1, 3)],
            THIRD,
            {(SECOND, 1, 19, 1, 0), (THIRD, 20, 20, 1, 0)},
            [],
            id="what was forgotten before is forgotten again",
        ),
        pytest.param(
            [(FIRST, 1, 9, 1, 0), (None, 10, 10, 0, 1)],
            SECOND,
            set(),
            [],
            id="a process that is gone",
        ),
    ],
)
def test_ranges_are_merged(
    spark: SparkSession,
    ranges: list[Range],
    first_day: date | None,
    expected: set[Range],
    missing: list[tuple[int, int]],
) -> None:
    """Their gaps are the same; those of days that are too old count no more. Merging again changes nothing."""
    found, left = merged(spark, ranges, first_day)
    assert (found, left) == (expected, missing)
    assert merged(spark, sorted(found, key=str), first_day) == (expected, missing)


def test_a_step_back_of_the_clock_stays_visible(spark: SparkSession) -> None:
    """A range that begins before the one before it ends is not joined to it."""
    rows = [
        ("entity", FIRST, 0, "pod", "b", 1, 5, 5, 1000, 5000, 1),
        ("entity", FIRST, 0, "pod", "b", 6, 9, 4, 3000, 6000, 2),
    ]
    assert merge_sequences(spark.createDataFrame(rows, SEQUENCES), None, 9).count() == 2
