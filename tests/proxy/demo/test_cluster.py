"""Cluster: three brokers, each of them a leader, and a free block of ports for Sluice."""

import socket

import pytest
from confluent_kafka import Producer

from proxy.demo import cluster
from proxy.demo.cluster import ANSWER_MS, BROKERS, HOST, free_ports, start_brokers
from proxy.demo.processes import DemoError


def test_every_broker_leads_and_answers_after_its_delay() -> None:
    """A client that asks one broker learns all three, and each leads a partition of the topic."""
    owner, ready = start_brokers()
    taken_ms: list[float] = []
    producer = Producer({"bootstrap.servers": ready.brokers[1], "linger.ms": 0})

    known = producer.list_topics(ready.topic, timeout=30).topics[ready.topic].partitions
    producer.produce(
        ready.topic, b"x", on_delivery=lambda _, record: taken_ms.append(record.latency() * 1000)
    )
    producer.flush(30)

    assert len(ready.brokers) == BROKERS
    assert {partition.leader for partition in known.values()} == set(ready.brokers)
    assert len(known) == ready.partitions
    assert min(taken_ms) >= ANSWER_MS
    del owner


def test_a_taken_port_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block with a taken port in it is not returned; when none is left, the error says so."""
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(cluster.random, "randrange", lambda *_: port - 1)

        with pytest.raises(DemoError, match="3 consecutive free ports"):
            free_ports(3, attempts=2)
