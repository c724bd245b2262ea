"""Cluster: three brokers that can be reached, each of them a leader."""

from __future__ import annotations

import socket

from confluent_kafka import Producer

from proxy.demo.cluster import ANSWER_MS, BROKERS, start


def test_every_broker_leads_and_listens() -> None:
    """A stranger who asks one broker learns all three, and each leads a partition of the topic."""
    owner, ready = start()
    address = ready.brokers[1]

    known = Producer({"bootstrap.servers": address}).list_topics(ready.topic, timeout=10)

    leaders = {partition.leader for partition in known.topics[ready.topic].partitions.values()}
    assert leaders == set(ready.brokers)
    assert len(ready.brokers) == BROKERS
    assert len(known.topics[ready.topic].partitions) == ready.partitions
    for place in ready.brokers.values():
        host, _, port = place.rpartition(":")
        socket.create_connection((host, int(port)), timeout=10).close()
    del owner


def test_brokers_answer_as_late_as_is_said() -> None:
    """An acknowledgement takes what the demo says that brokers take, never less."""
    owner, ready = start()
    producer = Producer({"bootstrap.servers": ready.brokers[1], "linger.ms": 0})
    producer.list_topics(ready.topic, timeout=10)
    taken_ms: list[float] = []

    for _ in range(5):
        producer.produce(
            ready.topic,
            b"x",
            partition=0,
            on_delivery=lambda _, record: taken_ms.append(record.latency() * 1000),
        )
        producer.flush(10)

    assert len(taken_ms) == 5
    assert min(taken_ms) >= ANSWER_MS
    del owner
