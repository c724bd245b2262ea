"""Errors of Spark on one line, and paths that are taken as they are."""

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipeline.errors import JobFailedError, PipelineError
from pipeline.hadoop import HADOOP, FileSystem, cause_of, in_one_line

JAVA_TEXT = """An error occurred while calling o47.parquet.
: org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.Some.where(Some.scala:1)
Caused by: java.lang.IllegalStateException: between
\tat org.apache.spark.Some.where(Some.scala:2)
Caused by: java.io.EOFException: Unexpected end of ZLIB input stream
\t... 11 more
"""
PLAN = """[STREAM_FAILED] Query terminated: Python worker failed.
=== Plan ===
:  +- Project [a]
: - Scan
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (JAVA_TEXT, "java.io.EOFException: Unexpected end of ZLIB input stream"),
        (JAVA_TEXT.partition("Caused")[0], "org.apache.spark.SparkException: Job aborted."),
        (PLAN, "[STREAM_FAILED] Query terminated: Python worker failed."),
        ("", "PySparkException"),
    ],
)
def test_the_cause_is_one_line(text: str, cause: str) -> None:
    """The last exception of Java; of a plan's lines none."""
    assert cause_of(PySparkException(text)) == cause


def test_memory_that_is_out_is_said_with_its_setting() -> None:
    """Whose memory it was, and how to give more."""
    with (
        pytest.raises(JobFailedError, match=r"usage failed: .*heap space\. .*driver\.memory="),
        in_one_line("usage"),
    ):
        raise PySparkException("x\n: java.lang.OutOfMemoryError: Java heap space\n\tat a.b(C)")


@pytest.mark.parametrize("ended", [Py4JNetworkError("empty"), ConnectionRefusedError(111, "no")])
def test_a_java_that_has_ended_is_one_line(ended: Exception) -> None:
    """The kernel kills it if the machine has no more memory; Python then finds nobody to talk to."""
    with pytest.raises(JobFailedError, match="Spark's Java process has ended"), in_one_line("all"):
        raise ended


def test_a_reader_who_leaves_is_no_failure_of_spark() -> None:
    """`sluice-pipeline usage ... | head` ends as other commands do."""
    with pytest.raises(BrokenPipeError), in_one_line("usage"):
        raise BrokenPipeError


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        (
            "s3a://bucket/x",
            f"not found. Give the option --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:{HADOOP}",
        ),
        ("s3://bucket/x", "Spark's scheme for S3 is s3a:"),
        ("gs://bucket/x", "spark.jars.packages=com.google.cloud.bigdataoss:gcs-connector:"),
        ("abfss://c@account.dfs.core.windows.net/x", f"hadoop-azure:{HADOOP}"),
        ("hdfs://no.such.host.invalid:8020/x", "UnknownHostException: no.such.host.invalid"),
        ("kafka:topic", "Relative path in absolute URI"),
        ("", "an empty string"),
    ],
)
def test_a_file_system_that_spark_lacks_is_named(spark: SparkSession, uri: str, words: str) -> None:
    """With the URI, and with what adds it if something does."""
    with pytest.raises(PipelineError) as raised:
        FileSystem(spark, uri)

    assert words in str(raised.value)
    assert str(raised.value).startswith(f"{uri}: ")
    assert "\n" not in str(raised.value)


def test_the_packages_have_the_version_of_sparks_hadoop(spark: SparkSession) -> None:
    """Other versions lack methods that Spark's own calls."""
    jvm = spark._jvm
    assert jvm is not None
    assert jvm.org.apache.hadoop.util.VersionInfo.getVersion() == HADOOP
