"""Sends an order a second to a Kafka topic, and prints the orders of all pods.

It reads KAFKA_BOOTSTRAP_SERVERS, which the chart points at the sidecar, and TOPIC. SIGTERM flushes and ends it: the
sidecar runs until then.
"""

import os
import signal
import socket
import threading

from kafka import KafkaConsumer, KafkaProducer

SERVERS = os.environ["KAFKA_BOOTSTRAP_SERVERS"].split(",")
TOPIC = os.environ.get("TOPIC", "orders")
POD = socket.gethostname()


def produce(stopping: threading.Event) -> None:
    """Send numbered orders until the event is set, then flush."""
    producer = KafkaProducer(bootstrap_servers=SERVERS, client_id="orders", acks="all")
    number = 0
    while not stopping.wait(1):
        number += 1
        producer.send(TOPIC, key=POD.encode(), value=f"order {number} of {POD}".encode())
    producer.flush()
    producer.close()
    print(f"flushed {number} orders", flush=True)


def consume(stopping: threading.Event) -> None:
    """Print the orders of all partitions until the event is set."""
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=SERVERS,
        client_id="orders",
        group_id=POD,
        auto_offset_reset="latest",
    )
    while not stopping.is_set():
        for records in consumer.poll(timeout_ms=500).values():
            for record in records:
                print(record.value.decode(), flush=True)
    consumer.close()


def main() -> None:
    """Run both until SIGTERM or SIGINT."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    consumer = threading.Thread(target=consume, args=(stopping,))
    consumer.start()
    try:
        produce(stopping)
    finally:
        stopping.set()
        consumer.join()


if __name__ == "__main__":
    main()
