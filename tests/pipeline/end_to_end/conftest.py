"""A real Kafka before which the recorded Sluices stand."""

from tests.support.kafka.one_kafka import java, kafka_one, topics_one, work  # noqa: F401 - fixtures
