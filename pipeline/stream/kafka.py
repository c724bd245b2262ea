"""The properties of Kafka's clients, as options of Spark's connector."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


def client_properties(spark: SparkSession, bootstrap: str | None, text: str) -> dict[str, str]:
    """Return the properties in a file's `text`, as Java reads it, and `bootstrap` as their bootstrap.servers."""
    read = spark._jvm.java.util.Properties()  # type: ignore[union-attr]  # noqa: SLF001 - the format is Java's
    read.load(spark._jvm.java.io.StringReader(text))  # type: ignore[union-attr]  # noqa: SLF001 - as above
    properties = {str(name): str(read.getProperty(name)) for name in read.stringPropertyNames()}
    return properties | ({} if bootstrap is None else {"bootstrap.servers": bootstrap})


def connector_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return Kafka's properties as options of Spark's connector."""
    return {f"kafka.{name}": value for name, value in properties.items()}
