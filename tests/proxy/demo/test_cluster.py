"""Cluster: three brokers that can be reached, each of them a leader."""

from __future__ import annotations

import socket

from confluent_kafka import Producer

from proxy.demo.cluster import BROKERS, start


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
