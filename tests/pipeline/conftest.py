"""One Spark session for all tests of the pipeline, opened when the first test asks for it."""

import pytest
from pyspark.sql import SparkSession

from tests.support.pipeline.spark import spark_session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """Spark with two threads on this machine."""
    return spark_session()
