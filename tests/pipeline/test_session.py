"""The Spark session: the workers' Python, the time zone, and what counts as a local master."""

import sys

import pytest
from pyspark.sql import SparkSession

from pipeline.session import is_local, session


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[2]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://h:7077", False),
    ],
)
def test_a_local_master_has_its_workers_here(master: str, *, local: bool) -> None:
    """Only local and local[N] are: other masters start processes that need the code as a zip."""
    assert is_local(master) is local


def test_workers_run_this_python_and_times_are_utc(spark: SparkSession) -> None:
    """A worker has the packages of this environment; a timestamp is UTC in every zone of the machine."""
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()

    assert found == [sys.executable]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_a_session_that_was_open_before_is_taken_and_stays_open(spark: SparkSession) -> None:
    """A job that is run inside another program takes its Spark, and does not stop it."""
    with session("inside", master="local[2]") as inside:
        assert inside.sparkContext is spark.sparkContext

    assert spark.range(3).count() == 3
