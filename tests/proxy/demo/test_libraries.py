"""Libraries: both against the mock; acks are told in the caller's thread, requests are counted."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from proxy.demo.cluster import start
from proxy.demo.libraries import Answered, KafkaPython, Librdkafka, RequestRate, chatty
from proxy.demo.producers import Producing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.demo.libraries import Library
    from proxy.demo.messages import ClusterReady

RECORDS = 200


def test_the_request_rate_is_a_difference() -> None:
    """Two statistics reports give requests per second; one gives none. Totals are the last one's."""
    rate = RequestRate()

    rate.on_statistics(json.dumps({"tx": 100, "rx": 99, "ts": 1_000_000}))
    first = rate.per_s
    rate.on_statistics(json.dumps({"tx": 150, "rx": 148, "ts": 1_500_000}))

    assert (first, rate.per_s) == (0.0, 100.0)
    assert rate.answered == Answered(148, 1_500_000_000)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterReady]:
    """An embedded cluster in this process."""
    owner, ready = start()
    yield ready
    del owner


@pytest.mark.parametrize("library_of", [KafkaPython, Librdkafka, chatty])
def test_each_library_gets_every_record_acked(
    library_of: Callable[[str, str, str], Library], cluster: ClusterReady
) -> None:
    """Each library delivers, tells each ack in the caller's thread, and knows the brokers."""
    bootstrap = ",".join(cluster.brokers.values())
    library = library_of("test", bootstrap, cluster.topic)
    work = Producing("test", library, cluster.partitions, 64)

    work.warm_up()
    for _ in range(RECORDS):
        work.send_one(time.monotonic_ns())
    library.serve(0.01)
    final = work.final()

    assert final.failed == 0
    assert final.brokers == cluster.brokers
    assert work.tick().acked == RECORDS + cluster.partitions


@pytest.mark.parametrize(("library_of", "each_its_own"), [(Librdkafka, False), (chatty, True)])
def test_the_chatty_one_sends_a_request_a_record(
    library_of: Callable[[str, str, str], Library],
    each_its_own: bool,  # noqa: FBT001 - pytest's way
    cluster: ClusterReady,
) -> None:
    """Counted by the library: at least as many answers as records, or far fewer by the other one."""
    library = library_of("test", ",".join(cluster.brokers.values()), cluster.topic)
    work = Producing("test", library, cluster.partitions, 64)
    work.warm_up()
    for _ in range(RECORDS):
        work.send_one(time.monotonic_ns())
    library.flush()
    counted = library.answered()
    for _ in range(100):
        library.serve(0.05)
        if counted.at_ns < (counted := library.answered()).at_ns:
            break

    assert (counted.requests >= RECORDS) == each_its_own
