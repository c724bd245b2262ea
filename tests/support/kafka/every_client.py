"""Uses every call of both Python clients whose replies have broker addresses: `python -m ... BOOTSTRAP TOPIC`.

It is a process of its own, so that its connections can be told from the test's. The exit code is 0 if all went well.
"""

import sys
import uuid

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer

from tests.support.kafka.python_clients import CLIENTS, poll_records

PARTITIONS = 6
COUNT = 60


def main(bootstrap: str, topic: str) -> None:
    """Write, read, join groups, commit transactions and ask about the cluster."""
    values = [b"%d" % number for number in range(COUNT)]
    for client in CLIENTS.values():
        client.write(bootstrap, topic, values, PARTITIONS, "all", "none")
    client.read(bootstrap, topic, PARTITIONS, 2 * COUNT)

    for protocol in ("classic", "consumer"):
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"g-{uuid.uuid4()}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([topic])
        poll_records(consumer, 2 * COUNT)
        consumer.close()
    python_consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=f"g-{uuid.uuid4()}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    )
    for _, _record in zip(range(2 * COUNT), python_consumer, strict=False):
        pass
    python_consumer.close()

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"x-{uuid.uuid4()}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(topic, b"in a transaction", partition=partition)
    producer.commit_transaction(30)

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.describe_cluster().result(timeout=120)
    admin.list_consumer_groups().result(timeout=120)
    python_admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    python_admin.describe_cluster()
    python_admin.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
