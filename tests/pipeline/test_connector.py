"""The jars of Delta Lake and of Spark's Kafka connector, and the error when they cannot be had."""

import sys
from pathlib import Path

import pyspark
import pytest

from pipeline.jars import DELTA, KAFKA, JarsUnavailableError, lock_of, locked_jars, read_lock


def test_the_connector_is_that_of_the_pinned_spark() -> None:
    """The lock names four jars; the connector has the version of pyspark."""
    jars = read_lock(lock_of(KAFKA))

    assert {jar.artifact for jar in jars} == {
        "spark-sql-kafka-0-10_2.13",
        "spark-token-provider-kafka-0-10_2.13",
        "kafka-clients",
        "commons-pool2",
    }
    assert jars[0].version == pyspark.__version__


def test_delta_is_that_of_the_pinned_spark() -> None:
    """Its name has the first two numbers of Spark; both jars are of one version."""
    spark, storage = read_lock(lock_of(DELTA))

    release = pyspark.__version__.rpartition(".")[0]
    assert (spark.artifact, storage.artifact) == (f"delta-spark_{release}_2.13", "delta-storage")
    assert spark.version == storage.version


def test_without_network_the_error_names_the_folder_and_the_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is in the cache of the user, and may be filled by hand."""
    monkeypatch.setenv("M2_REPO", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jgo.maven", None)

    with pytest.raises(JarsUnavailableError) as raised:
        locked_jars(KAFKA)
    said = str(raised.value)
    assert str(tmp_path / "cache" / "sluice" / "kafka") in said
    assert "sluice-pipeline package FOLDER --kafka" in said
    assert "org.apache.kafka_kafka-clients-3.9.2.jar" in said


def test_a_folder_that_cannot_be_made_is_the_same_error(tmp_path: Path) -> None:
    """A file in the place of the folder is named."""
    (tmp_path / "file").write_text("")

    with pytest.raises(JarsUnavailableError, match=r"jars: .*file"):
        locked_jars(DELTA, folder=tmp_path / "file" / "folder")
