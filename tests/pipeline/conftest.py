"""One Spark session for all tests of the pipeline, opened when the first test asks for it."""

import pytest
from pyspark.sql import SparkSession

from pipeline.jars import JarsUnavailableError
from tests.support.pipeline.spark import spark_session


@pytest.fixture(scope="session")
def spark(*, has_slow_tests: bool) -> SparkSession:
    """Spark with two threads on this machine; it compiles queries, as for users, if slow tests run."""
    try:
        return spark_session(for_few_rows=not has_slow_tests)
    except JarsUnavailableError as error:
        pytest.skip(str(error))
