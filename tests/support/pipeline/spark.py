"""The Spark session of the tests: one in a process, of two threads."""

from functools import cache

from pyspark.sql import SparkSession

from pipeline.session import open_session

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.sql.adaptive.enabled": "true",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@cache
def spark_session() -> SparkSession:
    """Return the session of this process, opened at the first call."""
    return open_session("tests", master="local[2]", settings=SETTINGS)
