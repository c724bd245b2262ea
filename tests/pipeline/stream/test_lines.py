"""Lines as rows: the rules of `ingest`, and those of a stream."""

import json

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from pipeline.schema import FAMILIES
from pipeline.stream.lines import MAX_AHEAD_MS, MAX_LINE_CHARS, checked, quarantined, rows_of
from tests.support.telemetry.usage_rows import START_MS, Row, usage_row

NOW_MS = START_MS + 3_600_000


def line(family: str = "entity", **columns: object) -> str:
    """Return a line of the log without spaces, as Sluice writes it."""
    row: Row = usage_row(family, seq=1, **columns)
    return json.dumps(row, separators=(",", ":"))


GOOD = {
    "of entity": line(client_id='"family":"api"'),
    "a minute ahead": line(ts_ms=NOW_MS + MAX_AHEAD_MS),
    "with a column of a later Sluice": line()[:-1] + ',"of_later":1}',
}
BAD = {
    "torn": line()[:-40],
    "torn ": line()[:-40] + line("api"),
    "unknown_version": line(v=2),
    "future": line(ts_ms=NOW_MS + MAX_AHEAD_MS + 1000),
    "bad_value": line(requests=-1),
    "missing_key": line(user=None),
    "wrong_type": line(requests="many"),
}
LEFT_OUT = {
    "of another family": line("api"),
    "with spaces": json.dumps(usage_row("instance", seq=1)),
}


@pytest.fixture(scope="module")
def lines(spark: SparkSession) -> DataFrame:
    """All lines, each from a file with its name, checked at NOW_MS."""
    every = [(text, name) for name, text in (GOOD | BAD | LEFT_OUT).items()]
    every.append((f"{{{'x' * 9999}", "torn  "))
    frame = spark.createDataFrame(every, "value string, file string")
    return checked(frame, "entity", sf.lit(NOW_MS)).cache()


def test_a_line_is_a_row_or_in_quarantine_or_of_another_family(lines: DataFrame) -> None:
    """Each refused line has its reason, also one in which two lines ran together."""
    found = {row["file"]: row["reason"] for row in lines.collect()}

    assert found == dict.fromkeys(GOOD) | {name: name.strip() for name in BAD} | {"torn  ": "torn"}


def test_rows_have_the_columns_of_the_family_and_their_time(lines: DataFrame) -> None:
    """`ts` is a timestamp, which a watermark needs."""
    rows = rows_of(lines, "entity")

    assert rows.columns == [*FAMILIES["entity"].names, "ts"]
    assert rows.where("ts = timestamp_millis(ts_ms)").count() == len(GOOD)


def test_a_line_in_quarantine_is_kept_but_not_at_any_length(lines: DataFrame) -> None:
    """The text is there to be looked at."""
    found = {row["file"]: row["line"] for row in quarantined(lines).collect()}

    assert found["unknown_version"] == BAD["unknown_version"]
    assert len(found["torn  "]) == MAX_LINE_CHARS
