"""Reader: a member of the group reads all that was produced, in order, and gives its book away."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from proxy.demo import reader
from proxy.demo.cluster import start
from proxy.demo.ledger import stamp, union
from proxy.demo.libraries import Librdkafka
from proxy.demo.messages import ClientReady, Final, Message, Tick
from proxy.demo.producers import Producing
from proxy.demo.reader import Reading, read

if TYPE_CHECKING:
    import pytest


def test_a_swapped_record_is_told() -> None:
    """What came late counts as out of order, what came twice as repeated."""
    reading = Reading()

    for sequence in (0, 2, 1, 2):
        reading.take(b"noisy", stamp(sequence, 10_000_000, 32), 0, 15_000_000)
    final = reading.final({}, failed=0)
    tick = reading.tick(3.0)

    assert (final.out_of_order, final.repeated) == (1, 1)
    assert union([final.runs]) == {("noisy", 0): [(0, 2)]}
    assert (tick.consumed, sum(tick.latency.values())) == (3, 4)


def test_a_reader_reads_what_was_acked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real consumer on the mock cluster consumes every acked record, then stops when told."""
    owner, cluster = start()
    bootstrap = ",".join(cluster.brokers.values())
    library = Librdkafka("noisy", bootstrap, cluster.topic)
    work = Producing("noisy", library, cluster.partitions, 64)
    for _ in range(100):
        work.send_one(time.monotonic_ns())
    acked = work.final()
    said: list[Message] = []
    stop = threading.Event()

    def say(message: Message) -> None:
        said.append(message)
        if isinstance(message, Tick) and message.consumed >= 100:
            stop.set()

    monkeypatch.setattr(reader, "say", say)
    read("reader-1", bootstrap, cluster.topic, stop)

    final = said[-1]
    assert isinstance(final, Final)
    assert union([final.runs]) == union([acked.runs])
    assert final.brokers == cluster.brokers
    assert any(isinstance(message, ClientReady) for message in said)
    del owner
