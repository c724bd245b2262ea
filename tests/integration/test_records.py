"""`records` before a real Kafka: three rules, as kafka-python and librdkafka meet them."""

import time
from pathlib import Path

from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics
from tests.support.processes.sluice_process import SluiceProcess

LONG_SECONDS = 60
CONFIG = {"max_batch_bytes": 5_000, "compression": ["gzip"], "max_age_ms": 3_600_000}
YESTERDAY_MS = 86_400_000
SMALL, LARGE, DENSE = b"x" * 100, b"x" * 3_000, bytes(range(256)) * 40


def by_librdkafka(bootstrap: str, topic: str, codec: str, value: bytes, at_ms: int) -> str:
    """Write a record; return "" or the name of the error."""
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
    producer.produce(
        topic,
        value,
        timestamp=at_ms,
        on_delivery=lambda error, _: errors.append(error.name() if error else ""),
    )
    assert producer.flush(LONG_SECONDS) == 0
    return errors[0]


def by_kafka_python(bootstrap: str, topic: str, codec: str, value: bytes, at_ms: int) -> str:
    """As above, with the class of the error."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec
    )
    try:
        producer.send(topic, value, timestamp_ms=at_ms or None).get(LONG_SECONDS)
    except KafkaError as error:
        return type(error).__name__
    finally:
        producer.close()
    return ""


def test_clients_see_which_rule_they_break(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    """A small record passes as it is, a large one only compressed; a batch that stays large and an old one never."""
    topics = Topics(kafka_one.bootstrap, 1)
    old_ms = int(time.time() * 1000) - YESTERDAY_MS
    cases = {
        ("none", SMALL, 0): ("", ""),
        ("none", LARGE, 0): ("POLICY_VIOLATION", "PolicyViolationError"),
        ("gzip", LARGE, 0): ("", ""),
        ("none", DENSE, 0): ("MSG_SIZE_TOO_LARGE", "MessageSizeTooLargeError"),
        ("gzip", SMALL, old_ms): ("INVALID_TIMESTAMP", "InvalidTimestampError"),
    }
    settings: dict[str, object] = {"policies": [{"use": "records", "config": CONFIG}]}
    with SluiceProcess(kafka_one.bootstrap, tmp_path / "sluice", settings=settings) as sluice:
        for place, write in enumerate((by_librdkafka, by_kafka_python)):
            topic = topics.make()
            found = {case: write(sluice.bootstrap, topic, *case) for case in cases}
            assert found == {case: errors[place] for case, errors in cases.items()}
            assert [each.value for each in topics.contents(topic)] == [SMALL, LARGE]
