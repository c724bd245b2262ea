"""Transactions: committed records are read, aborted ones are not, and offsets are committed with the records."""

import uuid

import pytest
from confluent_kafka import Consumer, Producer

from tests.integration.conftest import Way
from tests.support.kafka.java import Java
from tests.support.kafka.python_clients import Librdkafka, poll_records


def test_librdkafka_commits_and_aborts(way_three: Way) -> None:
    """read_committed sees the committed transaction only; read_uncommitted sees both."""
    topic = way_three.topics.make(3)
    producer = Producer(
        {"bootstrap.servers": way_three.bootstrap, "transactional.id": f"x-{uuid.uuid4()}"}
    )
    producer.init_transactions(30)
    for verdict in ("commit", "abort", "commit"):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(topic, f"{verdict} {partition}".encode(), partition=partition)
        if verdict == "commit":
            producer.commit_transaction(30)
        else:
            producer.flush(30)  # so that the aborted records do lie in the log
            producer.abort_transaction(30)
    committed = sorted(record.value for record in way_three.topics.contents(topic))
    assert committed == sorted(
        f"commit {partition}".encode() for partition in (0, 1, 2) for _ in range(2)
    )
    assert len(way_three.topics.contents(topic, committed=False)) == 9
    seen = Librdkafka().read(way_three.bootstrap, topic, 3, 6)
    assert sorted(record.value for record in seen) == committed


def test_offsets_are_part_of_the_transaction(way_three: Way) -> None:
    """Consume, transform, produce: an aborted round leaves no record and no offset, so its input is read again."""
    source, target = way_three.topics.make(), way_three.topics.make()
    values = [b"%d" % number for number in range(20)]
    Librdkafka().write(way_three.bootstrap, source, values, 1, "all", "none")
    group = f"g-{uuid.uuid4()}"
    producer = Producer(
        {"bootstrap.servers": way_three.bootstrap, "transactional.id": f"x-{uuid.uuid4()}"}
    )
    producer.init_transactions(30)
    for verdict in ("abort", "commit"):
        consumer = Consumer(
            {
                "bootstrap.servers": way_three.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        try:
            consumer.subscribe([source])
            records = poll_records(consumer, len(values))
            producer.begin_transaction()
            for record in records:
                producer.produce(target, b"%s %s" % (verdict.encode(), record.value))
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 30
            )
            if verdict == "abort":
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
        finally:
            consumer.close()
    found = [record.value for record in way_three.topics.contents(target)]
    assert found == [b"commit " + value for value in values]


@pytest.mark.slow
def test_kafkas_own_copier_copies_exactly_once(way_three: Way, java: Java) -> None:
    """TransactionalMessageCopier moves a partition in transactions of ten, each record once and in order."""
    source, target = way_three.topics.make(), way_three.topics.make()
    values = [b"%d" % number for number in range(95)]
    Librdkafka().write(way_three.bootstrap, source, values, 1, "all", "none")
    java.run_tool(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", way_three.bootstrap, "--transactional-id", f"x-{uuid.uuid4()}"),
        *("--input-topic", source, "--input-partition", "0", "--output-topic", target),
        *("--consumer-group", f"g-{uuid.uuid4()}", "--transaction-size", "10"),
    )
    assert [record.value for record in way_three.topics.contents(target)] == values
