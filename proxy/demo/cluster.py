"""The embedded cluster: librdkafka's mock brokers as a process (`-m proxy.demo.cluster`).

Rules:
- Three brokers on 127.0.0.1 at ports of the kernel's choice; they live as long as this process.
- They answer after `ANSWER_MS`, as brokers do that wait for their followers. A mock broker's own
  answer takes less than 0.1 ms; what a client would see then is mostly this machine's scheduler.
- The mock places leaders at random: topics are made until one has a leader on every broker.
"""

from __future__ import annotations

import itertools

from confluent_kafka import Producer

from proxy.demo.messages import Brokers, ClusterReady, Cues, say

BROKERS = 3
ANSWER_MS = 5
PATIENCE_S = 10.0


def start() -> tuple[Producer, ClusterReady]:
    """Start the brokers. They live as long as the returned client, the one the mock hangs on."""
    settings = {
        "test.mock.num.brokers": BROKERS,
        "test.mock.broker.rtt": ANSWER_MS,
        "log_level": 3,
    }
    owner = Producer(settings)
    for place in itertools.count(1):
        topic = f"orders-{place}"
        known = owner.list_topics(topic, timeout=PATIENCE_S)
        leaders = [partition.leader for partition in known.topics[topic].partitions.values()]
        if len(set(leaders)) == BROKERS:
            brokers: Brokers = {b.id: f"{b.host}:{b.port}" for b in known.brokers.values()}
            return owner, ClusterReady(brokers, topic, len(leaders))
    raise AssertionError("unreachable: count() never ends")


def main() -> None:
    """Run the brokers until standard input ends."""
    cues = Cues()
    owner, ready = start()
    say(ready)
    cues.ended.wait()
    del owner


if __name__ == "__main__":
    main()
