"""The workload is played on time, and every request ends."""

from array import array

import pytest

from bench.purgatory import play as module
from bench.purgatory.play import Book, Player
from proxy.core.purgatory.purgatory import Purgatory
from proxy.core.purgatory.timers import Timers

KEYS = ("a", "b", "c")


class Clock:
    """Advances only in a sleep, or by a jump when it is read for the n-th time."""

    def __init__(self, jumps=None):
        self.now_ns = 5_000_000_000
        self.reads = 0
        self.jumps = jumps or {}
        self.slept = 0

    def monotonic_ns(self):
        self.reads += 1
        self.now_ns += self.jumps.get(self.reads, 0) * 1_000_000
        return self.now_ns

    def sleep(self, seconds):
        assert 0 < seconds <= 0.001
        self.slept += 1
        self.now_ns += round(seconds * 1e9) + 1


def played(monkeypatch, slots, latencies_ms, jumps=None):
    """Return a player that has played this on a clock of its own."""
    clock = Clock(jumps)
    monkeypatch.setattr(module, "time", clock)
    timers = Timers()
    book = Book(array("q", bytes(8 * len(latencies_ms))))
    player = Player(timers, Purgatory(timers), book)
    player.play(slots, array("i", latencies_ms), KEYS, 200)
    return player, clock


def test_requests_complete_in_time_or_expire(monkeypatch):
    """At once, in time or at the timeout, each once; the clock stops where the last one ended."""
    player, clock = played(monkeypatch, [(0, 2), (3, 2)], [0, 50, 199, 5000])
    book = player.book
    assert (book.completed, book.expired) == (4, 1)
    assert list(book.deadlines_ms[:1]) == [203]
    assert [(expired, us // 1000) for expired, us in book.fired_us] == [(1, 203)]
    assert player.purgatory.num_delayed == 0
    assert player.enqueued_us == 3000
    assert (clock.now_ns - 5_000_000_000) // 1_000_000 == 203
    assert clock.slept == 203


def test_a_late_player_catches_up_and_loses_nothing(monkeypatch):
    """Half a second passes at once; due completions come before the deadlines."""
    player, _ = played(monkeypatch, [(0, 2), (1, 1), (400, 1)], [150, 300, 10, 5], jumps={3: 500})
    assert (player.book.completed, player.book.expired) == (4, 1)
    assert player.enqueued_us >= 500_000


@pytest.mark.parametrize("latency_ms", [199, 200])
def test_a_request_that_takes_as_long_as_the_timeout_expires(monkeypatch, latency_ms):
    """As in Kafka, where the other thread completes only requests that take less."""
    player, _ = played(monkeypatch, [(0, 1)], [latency_ms])
    assert player.book.expired == int(latency_ms == 200)
