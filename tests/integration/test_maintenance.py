"""Writes that are refused with an error that clients retry: by `maintenance`, until a file ends the pause, and once.

Nothing is lost, and the order stays.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from bench.harness import ROOT
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import await_that
from tests.support.kafka.topics import Topics
from tests.support.processes.sluice_process import SluiceProcess
from wire.errors import ErrorCode

RECORDS = 20
LONG_SECONDS = 60


def values(count: int = RECORDS) -> Iterator[bytes]:
    """Yield the records."""
    return (b"%d" % number for number in range(count))


def write_by_librdkafka(bootstrap: str, topic: str) -> None:
    """Write the records, each in a request of its own, several of them in flight."""
    errors: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "batch.num.messages": 1}
    )
    for value in values():
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(LONG_SECONDS) == 0
    assert errors == [None] * RECORDS


def write_by_kafka_python(bootstrap: str, topic: str) -> None:
    """As above."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, batch_size=0, linger_ms=0
    )
    for sent in [producer.send(topic, value) for value in values()]:
        sent.get(LONG_SECONDS)
    producer.close()


def test_producers_wait_through_a_pause(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    """They are refused again and again, and write all records in order when the file ends the pause.

    Another topic is written to meanwhile.
    """
    topics = Topics(kafka_one.bootstrap, 1)
    writers = {topics.make(): write_by_librdkafka, topics.make(): write_by_kafka_python}
    other = topics.make()
    file = tmp_path / "pauses.yaml"
    lines = "".join(f"- {{topic: {topic}}}\n" for topic in writers)
    file.write_text(f"pauses:\n{lines}")
    config = {"file": str(file), "hold_ms": 300}
    settings: dict[str, object] = {"policies": [{"use": "maintenance", "config": config}]}
    sluice = SluiceProcess(kafka_one.bootstrap, tmp_path / "sluice", settings=settings)

    def refused() -> int:
        """Return how many refusals the log has."""
        return sluice.said().count("error=REQUEST_TIMED_OUT")

    with sluice, ThreadPoolExecutor(2) as pool:
        writing = [pool.submit(write, sluice.bootstrap, topic) for topic, write in writers.items()]
        await_that(lambda: refused() >= 4, "refusals")
        write_by_librdkafka(sluice.bootstrap, other)
        assert not any(each.done() for each in writing)
        assert [topics.contents(topic) for topic in writers] == [[], []]

        fresh = file.with_suffix(".new")
        fresh.write_text("pauses: []")
        fresh.replace(file)
        for each in writing:
            each.result()
        assert "no writes paused" in sluice.said()

    for topic in (*writers, other):
        assert [each.value for each in topics.contents(topic)] == list(values())


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_a_new_producers_first_write_is_not_overtaken_when_it_is_refused(
    kafka_one: KafkaCluster, tmp_path: Path, code: int
) -> None:
    """The broker accepts any sequence number from a producer that it does not know yet."""
    topics = Topics(kafka_one.bootstrap, 1)
    policy = {"use": "tests.support.plugins.refuse_first:RefuseFirst", "config": {"code": code}}
    for write in (write_by_librdkafka, write_by_kafka_python):
        sluice = SluiceProcess(
            kafka_one.bootstrap,
            tmp_path / write.__name__,
            settings={"policies": [policy]},
            variables={"PYTHONPATH": str(ROOT)},
        )
        topic = topics.make()
        with sluice:
            write(sluice.bootstrap, topic)
            assert sluice.said().count(f"error={ErrorCode(code).name}") == 1
        assert [each.value for each in topics.contents(topic)] == list(values())
