"""Delays in the rows of older and newer Sluices."""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from pipeline.ingest.job import Ingest
from pipeline.schema import API, DELAY
from pipeline.stages import with_delays
from pipeline.tables import TimeRange
from pipeline.usage import read_usage
from tests.support.telemetry.usage_rows import START_MS, Row, frame, usage_row, write_usage_log

WAIT, WHOLE = 88, 120
"""Buckets: 2 ms before a request is forwarded, 33 ms with the pause after it."""
NEW = {"throttle_i": [WAIT], "throttle_n": [3], "delay_i": [WHOLE], "delay_n": [5]}


def old(row: Row) -> Row:
    """Return the row as an older Sluice wrote it."""
    return {name: value for name, value in row.items() if not name.startswith(DELAY)}


def test_the_stage_throttle_has_whole_delays_where_they_are_known(spark: SparkSession) -> None:
    """An old row tells of waits only; one without a delay has none, whatever waited behind a pause. Twice is once."""
    rows = [
        usage_row("api", user="new", **NEW),
        usage_row("api", user="old", **NEW | {"delay_i": None, "delay_n": None}),
        usage_row("api", user="none", **NEW | {"delay_i": [], "delay_n": []}),
    ]
    api = with_delays(with_delays(frame(spark, "api", rows)))

    found = {row["user"]: (row["throttle_i"], row["throttle_n"]) for row in api.collect()}
    assert found == {"new": ([WHOLE], [5]), "old": ([WAIT], [3]), "none": ([], [])}
    assert api.columns == API.names


def test_a_table_of_an_older_sluice_gets_the_column(spark: SparkSession, tmp_path: Path) -> None:
    """Its rows stay readable before and after rows with delays are added; each client has what its rows tell."""
    log, uri = tmp_path / "log", str(tmp_path / "tables")
    row = usage_row("api", user="alice", client_id="a", boot="b1", seq=1, requests=9, **NEW)
    write_usage_log(log, [old(row)])
    Ingest(spark, str(log), uri, START_MS).run()
    (before,) = read_usage(spark, uri, ["api", "user"], TimeRange()).collect()
    assert (before["throttle_waited"], before["throttle_p50_ms"] > 3) == (3, False)

    write_usage_log(log, [row | {"boot": "b2", "user": "bob"}])
    Ingest(spark, str(log), uri, START_MS).run()
    after = read_usage(spark, uri, ["api", "user"], TimeRange()).orderBy(sf.col("user"))
    assert [(each["user"], each["throttle_waited"]) for each in after.collect()] == [
        ("alice", 3),
        ("bob", 5),
    ]
