"""The Spark session of the tests: one in a process, of two threads."""

from functools import cache
from typing import Final

from pyspark.sql import SparkSession

from pipeline.session import open_session

SETTINGS: Final = {
    "spark.driver.memory": "1g",
    "spark.sql.adaptive.enabled": "true",
    # Java's own 48 MB for code are too few: what was compiled would be dropped and compiled again.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn400m -XX:MetaspaceSize=400m "
        "-XX:ReservedCodeCacheSize=256m"
    ),
}
FOR_FEW_ROWS: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.files.minPartitionNum": "2",
    "spark.sql.ui.explainMode": "simple",
}
"""Compiling a query takes longer than its few rows do, and so does each task."""


@cache
def spark_session(*, for_few_rows: bool) -> SparkSession:
    """Return the session of this process, opened at the first call."""
    settings = SETTINGS | (FOR_FEW_ROWS if for_few_rows else {})
    return open_session("tests", master="local[2]", settings=settings)
