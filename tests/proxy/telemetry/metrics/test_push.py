"""The thread that pushes metrics: the event loop never waits for the collector."""

import threading

import pytest

from proxy.telemetry.metrics import names
from proxy.telemetry.metrics.collect import single
from proxy.telemetry.metrics.push import INTERVAL_MS, MIN_INTERVAL_MS, MetricPush

FAMILIES = [single(names.CONNECTIONS, 3)]
PATIENCE_S = 60.0


class Collector:
    """Answers each push as it is told to: True, False, an exception, or an event to wait for."""

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
        """Wait until one more push was answered."""
        assert self.done.acquire(timeout=PATIENCE_S)


def begin(*ways: bool | Exception | threading.Event) -> tuple[MetricPush, Collector]:
    collector = Collector(*ways)
    push = MetricPush("1.2.3", lambda _: collector, interval_ms=1000)
    push.start()
    return push, collector


def test_a_push_is_due_once_an_interval() -> None:
    """The first one is due after a whole interval; a late one does not bring the next forward."""
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
def test_the_environment_sets_the_interval(
    monkeypatch: pytest.MonkeyPatch, said: str | None, meant: int
) -> None:
    """OTEL_METRIC_EXPORT_INTERVAL is in milliseconds; text that is not a number is ignored."""
    monkeypatch.delenv("OTEL_METRIC_EXPORT_INTERVAL", raising=False)
    if said is not None:
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", said)

    assert MetricPush("1.2.3").interval_ms == meant


def test_each_push_is_sent_or_counted_as_a_failure() -> None:
    """It has the time of its collection; an exception is a failure too and does not end the thread."""
    push, collector = begin(True, False, OSError("no route"), True)
    for n in range(4):
        push.send(FAMILIES, n)
        collector.sent()
    push.close()

    assert collector.got == [(FAMILIES, n) for n in range(4)]
    assert push.counts() == {"success": 2, "failure": 2, "dropped": 0}


def test_a_slow_collector_gets_the_newest_push() -> None:
    """Older pushes in the queue are replaced and counted; the caller does not wait."""
    opened = threading.Event()
    push, collector = begin(opened)
    push.send(FAMILIES, 1)
    assert collector.begun.acquire(timeout=PATIENCE_S)
    for n in range(2, 100):
        push.send(FAMILIES, n)  # a send that waited would never return
    opened.set()
    push.close()

    assert [at for _, at in collector.got] == [1, 99]
    assert push.counts() == {"success": 2, "failure": 0, "dropped": 97}


def test_a_push_ends_in_time() -> None:
    """What is in the queue is sent first; a thread whose collector hangs is abandoned, and is a daemon."""
    push, collector = begin()
    push.send(FAMILIES, 7)
    push.close()

    assert [at for _, at in collector.got] == [7]
    assert collector.shut.is_set()

    never = threading.Event()
    push, collector = begin(never)
    push.send(FAMILIES, 1)
    assert collector.begun.acquire(timeout=PATIENCE_S)
    push.close(timeout_s=0.2)

    assert collector.shut.is_set()
    never.set()  # `close` returned although the collector hung

    MetricPush("1.2.3").close()


def test_an_exporter_that_cannot_be_made_is_an_error_at_the_start() -> None:
    """It is not reported later from the thread."""

    def load(version: str) -> Collector:
        raise ValueError("OTEL_EXPORTER_OTLP_ENDPOINT")

    with pytest.raises(ValueError, match="ENDPOINT"):
        MetricPush("1.2.3", load).start()
