"""The line of each batch."""

from types import SimpleNamespace

from pyspark.sql import Row

from pipeline.stream.follow import Summaries, in_words


def batch(number: int, rows: int, late: int = 0, **observed: int) -> SimpleNamespace:
    """Return Spark's report of a batch with two operators that keep state."""
    operators = [
        SimpleNamespace(
            numRowsDroppedByWatermark=late, customMetrics={"numDroppedDuplicateRows": 7}
        ),
        SimpleNamespace(numRowsDroppedByWatermark=0, customMetrics={}),
    ]
    return SimpleNamespace(
        batchId=number,
        timestamp=f"2026-11-21T00:00:{number:02}Z",
        numInputRows=rows,
        stateOperators=operators if rows else [],
        observedMetrics={"quarantine": Row(**observed)} if observed else {},
    )


def test_each_batch_is_told_of_once_and_an_empty_one_never() -> None:
    """Lines read, observed counts, late rows, duplicates, the batch's own counts; Spark's list has earlier ones."""
    query = SimpleNamespace(name="rollups", recentProgress=[batch(0, 12_345, 2, torn=1, early=0)])
    summaries = Summaries({("rollups", 2): {"raised": 3}, ("alerts", 2): {"raised": 4}})

    assert summaries.new_lines(query) == [
        "rollups, batch 0: 12,345 lines read, 1 torn, 2 late rows dropped, 7 duplicates dropped"
    ]
    query.recentProgress += [batch(1, 0), batch(2, 1)]
    assert summaries.new_lines(query) == [
        "rollups, batch 2: 1 lines read, 7 duplicates dropped, 3 raised"
    ]
    assert summaries.new_lines(query) == []


def test_counts_of_zero_are_left_out() -> None:
    """Only what there is to say is said."""
    assert in_words({"raised": 0, "cleared": 1}) == "1 cleared"
