"""The cluster that the demo's clients see: librdkafka's mock brokers (`-m proxy.demo.cluster`).

Rules:
- The brokers are one process, on ports of 127.0.0.1 that the kernel chooses; they end with that process.
- They answer after `ANSWER_MS`, as brokers do that wait for their followers. A mock broker alone answers
  in less than 0.1 ms; a client would then measure little but this machine's scheduler.
"""

from __future__ import annotations

import errno
import itertools
import random
import socket
import sys
from typing import TYPE_CHECKING

from proxy.demo.processes import ClusterReady, DemoError, send

if TYPE_CHECKING:
    from confluent_kafka import Producer

BROKERS = 3
ANSWER_MS = 5
HOST = "127.0.0.1"
NODES = 10
"""Node ids 0 to 9; the embedded cluster uses 1 to 3."""
TIMEOUT_S = 60.0


def start_brokers() -> tuple[Producer, ClusterReady]:
    """Start the brokers. They live as long as the returned client, which owns the mock cluster."""
    from confluent_kafka import Producer  # noqa: PLC0415 - only the brokers' own process needs it

    settings = {
        "test.mock.num.brokers": BROKERS,
        "test.mock.broker.rtt": ANSWER_MS,
        "log_level": 3,
    }
    owner = Producer(settings)
    # The mock places leaders at random: topics are created until one has a leader on every broker.
    for attempt in itertools.count(1):
        topic = f"orders-{attempt}"
        metadata = owner.list_topics(topic, timeout=TIMEOUT_S)
        leaders = [partition.leader for partition in metadata.topics[topic].partitions.values()]
        if len(set(leaders)) == BROKERS:
            brokers = {b.id: f"{b.host}:{b.port}" for b in metadata.brokers.values()}
            return owner, ClusterReady(brokers, topic, len(leaders))
    raise AssertionError("unreachable: count() never ends")


def free_ports(count: int, attempts: int = 100) -> int:
    """Return the first of `count` consecutive ports that are free now on 127.0.0.1.

    Raises DemoError when none were found.
    """
    for _ in range(attempts):
        first = random.randrange(20_000, 32_000)  # noqa: S311 - below the kernel's own range, no secret
        if all(map(_is_free, range(first, first + count))):
            return first
    raise DemoError(f"found no {count} consecutive free ports in 20000..32000")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return False
            raise
    return True


def main() -> None:
    """Run the brokers until standard input ends."""
    owner, ready = start_brokers()
    send(ready)
    sys.stdin.read()
    del owner


if __name__ == "__main__":
    main()
