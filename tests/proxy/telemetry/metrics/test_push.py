"""The push's thread: whatever the collector does, the loop never waits for it."""

from __future__ import annotations

import threading

import pytest

from proxy.telemetry.metrics import names
from proxy.telemetry.metrics.collect import single
from proxy.telemetry.metrics.push import INTERVAL_MS, MIN_INTERVAL_MS, MetricPush

FAMILIES = [single(names.CONNECTIONS, 3)]
PATIENCE_S = 60.0


class Collector:
    """Takes what is sent, each as it is told to: True, False, an error, or an event to wait for first."""

    def __init__(self, *ways: bool | Exception | threading.Event) -> None:
        self.ways = list(ways)
        self.got: list[tuple[object, int]] = []
        self.begun = threading.Semaphore(0)
        self.done = threading.Semaphore(0)
        self.shut = threading.Event()

    def export(self, families, at_ms: int) -> bool:
        self.got.append((families, at_ms))
        self.begun.release()
        way = self.ways.pop(0) if self.ways else True
        try:
            if isinstance(way, Exception):
                raise way
            if isinstance(way, threading.Event):
                assert way.wait(PATIENCE_S)
                return True
            return way
        finally:
            self.done.release()

    def shutdown(self) -> None:
        self.shut.set()

    def sent(self) -> None:
        """Wait until one more was taken, in whatever way."""
        assert self.done.acquire(timeout=PATIENCE_S)


def begin(*ways: bool | Exception | threading.Event) -> tuple[MetricPush, Collector]:
    collector = Collector(*ways)
    push = MetricPush("1.2.3", lambda _: collector, interval_ms=1000)
    push.start()
    return push, collector


def test_it_is_due_once_an_interval() -> None:
    """The first time after a whole one; a late call does not bring another at once."""
    push = MetricPush("1.2.3", interval_ms=1000)

    asked = [5000, 5999, 6000, 6001, 6999, 9500, 9501, 10_499, 10_500]
    assert [at for at in asked if push.is_due(at)] == [6000, 9500, 10_500]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (None, INTERVAL_MS),
        ("15000", 15_000),
        ("1", MIN_INTERVAL_MS),
        ("often", INTERVAL_MS),
    ],
)
def test_the_environment_says_how_often(
    monkeypatch: pytest.MonkeyPatch, said: str | None, meant: int
) -> None:
    """OTEL_METRIC_EXPORT_INTERVAL in milliseconds; what is no number is passed over."""
    monkeypatch.delenv("OTEL_METRIC_EXPORT_INTERVAL", raising=False)
    if said is not None:
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", said)

    assert MetricPush("1.2.3").interval_ms == meant


def test_what_is_handed_over_is_sent() -> None:
    """With the time at which it was collected; a failure and an error are failures, and do not end the thread."""
    push, collector = begin(True, False, OSError("no route"), True)
    for n in range(4):
        push.send(FAMILIES, n)
        collector.sent()
    push.close()

    assert collector.got == [(FAMILIES, n) for n in range(4)]
    assert push.counts() == {"success": 2, "failure": 2, "dropped": 0}


def test_a_slow_collector_gets_the_newest() -> None:
    """What waits behind it is replaced, and counted; nobody waits."""
    opened = threading.Event()
    push, collector = begin(opened)
    push.send(FAMILIES, 1)
    assert collector.begun.acquire(timeout=PATIENCE_S)
    for n in range(2, 100):
        push.send(
            FAMILIES, n
        )  # here this would stand still, for the collector is told to go on behind it
    opened.set()
    push.close()

    assert [at for _, at in collector.got] == [1, 99]
    assert push.counts() == {"success": 2, "failure": 0, "dropped": 97}


def test_the_last_one_is_sent_at_the_end() -> None:
    """What waits when the process ends goes out before the exporter is shut down."""
    push, collector = begin()
    push.send(FAMILIES, 7)
    push.close()

    assert [at for _, at in collector.got] == [7]
    assert collector.shut.is_set()
    assert not push._thread.is_alive()


def test_a_collector_that_hangs_does_not_hold_up_the_end() -> None:
    """After the given time the thread is left to itself; it is a daemon."""
    never = threading.Event()
    push, collector = begin(never)
    push.send(FAMILIES, 1)
    assert collector.begun.acquire(timeout=PATIENCE_S)
    push.close(timeout_s=0.2)

    assert push._thread.is_alive()  # the end is here, and the collector still hangs
    assert collector.shut.is_set()
    assert push._thread.daemon
    never.set()
    push._thread.join(PATIENCE_S)


def test_what_was_never_begun_can_be_closed() -> None:
    """A start that failed leaves nothing to wait for."""
    MetricPush("1.2.3").close()


def test_an_exporter_that_cannot_be_made_is_told_at_the_start() -> None:
    """Not from a thread, later."""

    def load(version: str) -> Collector:
        raise ValueError("OTEL_EXPORTER_OTLP_ENDPOINT")

    with pytest.raises(ValueError, match="ENDPOINT"):
        MetricPush("1.2.3", load).start()
