"""Properties of Kafka's clients, read as Kafka's own tools read them."""

from pyspark.sql import SparkSession

from pipeline.stream.sources import client_properties, connector_options

FILE = r"""
# for Sluice
security.protocol = SASL_SSL
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
    username="alice" password="a=b:c";
bootstrap.servers=elsewhere:9092
"""


def test_a_file_is_read_as_java_reads_it(spark: SparkSession) -> None:
    """Comments, continued lines and `=` in a value; the address of the command line comes first."""
    found = client_properties(spark, "sluice:19092", FILE)

    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="alice" password="a=b:c";',
        "bootstrap.servers": "sluice:19092",
    }
    assert connector_options({"client.id": "stream"}) == {"kafka.client.id": "stream"}
    assert connector_options({}) == {"kafka.client.id": "sluice-pipeline"}


def test_without_a_file_there_is_the_address_only(spark: SparkSession) -> None:
    """And nothing where no topic is used."""
    assert client_properties(spark, "b:1", "") == {"bootstrap.servers": "b:1"}
    assert client_properties(spark, None, "") == {}
