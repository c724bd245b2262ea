"""Libraries: both against the mock cluster; acks are reported in the caller's thread, requests are counted."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from proxy.demo.clients import PRODUCERS, Library, NumberingProducer
from proxy.demo.cluster import start_brokers
from proxy.demo.libraries import KafkaPython, Librdkafka, RequestRate
from proxy.demo.processes import ClusterReady

RECORDS = 200
ROLE = PRODUCERS["producer-1"]


def test_the_request_rate_is_a_difference() -> None:
    """Two statistics reports give requests per second; one gives none. Totals are the last report's."""
    rate = RequestRate()

    rate.on_statistics(json.dumps({"tx": 100, "rx": 99, "ts": 1_000_000}))
    first = rate.per_s
    rate.on_statistics(json.dumps({"tx": 150, "rx": 148, "ts": 1_500_000}))

    assert (first, rate.per_s) == (0.0, 100.0)
    assert rate.answered == (148, 1_500_000_000)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterReady]:
    """An embedded cluster in this process."""
    owner, ready = start_brokers()
    yield ready
    del owner


@pytest.mark.parametrize(
    "library_of",
    [KafkaPython, Librdkafka, partial(Librdkafka, batches=False)],
    ids=["kafka-python", "librdkafka", "one record a request"],
)
def test_each_library_gets_every_record_acked(
    library_of: Callable[[str, str, str], Library], cluster: ClusterReady
) -> None:
    """Each library delivers, reports each ack in the caller's thread, and knows the brokers."""
    library = library_of("test", ",".join(cluster.brokers.values()), cluster.topic)
    producer = NumberingProducer("test", library, cluster.partitions, ROLE)

    producer.warm_up()
    for _ in range(RECORDS):
        producer.send_one(time.monotonic_ns())
    library.poll(0.01)
    result = producer.result()

    assert (result.count, result.failed) == (RECORDS + cluster.partitions, 0)
    assert result.brokers == cluster.brokers


@pytest.mark.parametrize("batches", [True, False])
def test_without_batches_every_record_is_a_request(*, batches: bool, cluster: ClusterReady) -> None:
    """By the library's own count: at least as many answers as records without batches, far fewer with them."""
    library = Librdkafka("test", ",".join(cluster.brokers.values()), cluster.topic, batches=batches)
    producer = NumberingProducer("test", library, cluster.partitions, ROLE)
    producer.warm_up()
    for _ in range(RECORDS):
        producer.send_one(time.monotonic_ns())
    library.flush()
    counted, counted_at_ns = library.answered()
    for _ in range(100):
        library.poll(0.05)
        counted, at_ns = library.answered()
        if at_ns > counted_at_ns:
            break

    assert (counted >= RECORDS) is not batches
