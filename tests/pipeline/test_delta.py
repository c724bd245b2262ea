"""One table of Delta Lake: an append is there once, whoever repeats it, and however many append at once."""

import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from pipeline import delta
from pipeline.errors import PipelineError


def found(spark: SparkSession, uri: str) -> Counter[int]:
    rows = delta.maybe_read(spark, uri)
    assert rows is not None
    return Counter(row[0] for row in rows.select("n").collect())


def rows_of(spark: SparkSession, *numbers: int) -> DataFrame:
    return spark.createDataFrame([(n,) for n in numbers], "n bigint")


def test_a_transaction_is_there_once_and_none_comes_after_a_later_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also one without rows counts: what is appended for it afterwards is left out."""
    uri = str(tmp_path / "table [1]")
    assert delta.maybe_read(spark, uri) is None
    for version, numbers in ((1, (1, 2)), (1, (1, 2)), (2, ()), (2, (3,)), (1, (4,)), (3, (5,))):
        delta.append(rows_of(spark, *numbers), uri, app="a", version=version)
    delta.append(rows_of(spark, 6), uri, app="b", version=1)

    assert found(spark, uri) == Counter([1, 2, 5, 6])


def test_appends_at_once_to_a_table_that_is_absent_all_arrive(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Five times one transaction is one; others beside it, with columns of their own, have their rows, too."""
    uri = str(tmp_path / "table")

    def add(number: int) -> None:
        if number < 5:
            delta.append(rows_of(spark, 0), uri, app="same", version=1)
        else:
            own = rows_of(spark, number).withColumn(f"of_{number}", sf.lit(number))
            delta.append(own, uri, app=f"own-{number}", version=1)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))

    assert found(spark, uri) == Counter([0, 5, 6, 7])


def test_processes_commit_in_turn(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another one has the turn an append waits, then says so; when that process is killed it goes on."""
    uri = str(tmp_path / "table")
    delta.append(rows_of(spark, 1), uri, app="a", version=1)
    program = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX)"
    )
    program += "; print(flush=True); time.sleep(600)"
    words = [sys.executable, "-c", program, f"{uri}/.turn"]
    monkeypatch.setattr(delta, "_TURN_SECONDS", 0)
    with subprocess.Popen(words, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(PipelineError, match="table: another process has been writing"):
            delta.append(rows_of(spark, 2), uri, app="a", version=2)
        other.kill()
    delta.append(rows_of(spark, 2), uri, app="a", version=2)

    assert found(spark, uri) == Counter([1, 2])
