"""Producers: what is acked is entered, what is not has failed; both libraries against the mock."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

import pytest

from proxy.demo import producers
from proxy.demo.cluster import start
from proxy.demo.ledger import read_stamp
from proxy.demo.messages import ClientReady, Final, Message, Tick
from proxy.demo.producers import KafkaPython, Librdkafka, Producing, RequestRate, produce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.demo.messages import Brokers, ClusterReady
    from proxy.demo.producers import Library, OnAck


class FakeLibrary:
    """Acks every record at the next `serve`, after `delay_ns`; drops those of `unanswered`."""

    def __init__(self, unanswered: frozenset[int] = frozenset(), delay_ns: int = 2_000_000) -> None:
        self.sent: list[tuple[bytes, bytes, int]] = []
        self._waiting: list[tuple[OnAck, int]] = []
        self._unanswered = unanswered
        self._delay_ns = delay_ns

    def send(self, key: bytes, value: bytes, partition: int, on_ack: OnAck) -> None:
        """Remember it."""
        if len(self.sent) not in self._unanswered:
            self._waiting.append((on_ack, read_stamp(value)[1] + self._delay_ns))
        self.sent.append((key, value, partition))

    def serve(self, seconds: float) -> None:
        """Ack what waits; no time passes."""
        waiting, self._waiting = self._waiting, []
        for on_ack, at_ns in waiting:
            on_ack(True, at_ns)

    def flush(self) -> None:
        """Ack what waits."""
        self.serve(0)

    def requests_per_s(self) -> float:
        """Return a figure of its own."""
        return 12.5

    def brokers(self) -> Brokers:
        """Return one broker."""
        return {1: "127.0.0.1:1"}


def test_records_are_numbered_per_partition() -> None:
    """Partitions take turns, and each one's records are numbered from nought."""
    library = FakeLibrary()
    work = Producing("noisy", library, partitions=3, record_bytes=40)

    for moment in range(7):
        work.send_one(moment)

    places = [(partition, read_stamp(value)[0]) for _, value, partition in library.sent]
    assert places == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2)]
    assert {len(value) for _, value, _ in library.sent} == {40}
    assert {key for key, _, _ in library.sent} == {b"noisy"}


def test_what_was_never_answered_has_failed() -> None:
    """The last word counts acked records, and each unanswered one as failed."""
    work = Producing("noisy", FakeLibrary(unanswered=frozenset({4})), 2, 40)

    for moment in range(6):
        work.send_one(moment)
    final = work.final()

    assert final.failed == 1
    assert {(p, n): runs for p, n, runs in final.runs} == {
        ("noisy", 0): [(0, 1)],
        ("noisy", 1): [(0, 2)],
    }
    assert work.tick().acked == 5


def test_connecting_is_not_in_the_latency() -> None:
    """The warm-up enters one record a partition and no latency; later records have theirs."""
    library = FakeLibrary()
    work = Producing("polite", library, 4, 40)

    work.warm_up()
    warm = work.tick()
    work.send_one(1_000_000_000)
    library.serve(0)

    assert (warm.acked, warm.latency) == (4, {})
    assert sum(work.tick().latency.values()) == 1


def test_a_stopped_producer_says_all_it_has_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ready first, the last tick and the last word at the end, even when stopped at once."""
    said: list[Message] = []
    monkeypatch.setattr(producers, "say", said.append)
    library = FakeLibrary()
    stop = threading.Event()
    stop.set()

    produce(Producing("polite", library, 4, 40), library, 100, stop)

    assert [type(message) for message in said] == [ClientReady, Tick, Final]


def test_the_request_rate_is_a_difference() -> None:
    """Two statistics reports give requests per second; one gives none."""
    rate = RequestRate()

    rate.on_statistics(json.dumps({"tx": 100, "ts": 1_000_000}))
    first = rate.per_s
    rate.on_statistics(json.dumps({"tx": 150, "ts": 1_500_000}))

    assert (first, rate.per_s) == (0.0, 100.0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterReady]:
    """An embedded cluster in this process."""
    owner, ready = start()
    yield ready
    del owner


@pytest.mark.parametrize("library_of", [KafkaPython, Librdkafka])
def test_both_libraries_get_every_record_acked(
    library_of: Callable[[str, str, str], Library], cluster: ClusterReady
) -> None:
    """Each library delivers, tells each ack in the caller's thread, and knows the brokers."""
    bootstrap = ",".join(cluster.brokers.values())
    library = library_of("test", bootstrap, cluster.topic)
    work = Producing("test", library, cluster.partitions, 64)

    work.warm_up()
    for _ in range(200):
        work.send_one(time.monotonic_ns())
    library.serve(0.01)
    final = work.final()

    assert final.failed == 0
    assert final.brokers == cluster.brokers
    assert work.tick().acked == 200 + cluster.partitions
