"""The one time: the wall's when it starts, elapsed time from then on."""

from __future__ import annotations

import pytest

from proxy.shell import clock as clock_module
from proxy.shell.clock import Clock

EPOCH_MS = 1_700_000_000_123
MS = 1_000_000


class FakeTime:
    """Two clocks that are turned by hand: the wall's may jump, the other cannot."""

    def __init__(self) -> None:
        self.wall_ns = EPOCH_MS * MS
        self.elapsed_ns = 55 * MS

    def time_ns(self) -> int:
        return self.wall_ns

    def monotonic_ns(self) -> int:
        return self.elapsed_ns

    def pass_ns(self, elapsed_ns: int) -> None:
        self.wall_ns += elapsed_ns
        self.elapsed_ns += elapsed_ns


@pytest.fixture
def fake(monkeypatch):
    made = FakeTime()
    monkeypatch.setattr(clock_module, "time", made)
    return made


def test_it_starts_at_the_time_of_day(fake):
    """Milliseconds since the epoch."""
    assert Clock()() == EPOCH_MS


def test_it_goes_on_by_elapsed_time(fake):
    """Whole milliseconds, none of them lost in between."""
    clock = Clock()
    for _ in range(10):
        fake.pass_ns(MS // 4)
    assert clock() == EPOCH_MS + 2
    fake.pass_ns(MS // 2)
    assert clock() == EPOCH_MS + 3


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
def test_it_never_jumps_with_the_wall_clock(fake, jump_ms):
    """Somebody sets it, and nothing here is late or early for it; only the drift says so."""
    clock = Clock()
    fake.wall_ns += jump_ms * MS
    fake.pass_ns(5 * MS)
    assert clock() == EPOCH_MS + 5
    assert clock.drift_ms() == jump_ms


def test_it_has_not_drifted_when_nothing_jumped(fake):
    """Both clocks ran alike."""
    clock = Clock()
    fake.pass_ns(123_456_789)
    assert clock.drift_ms() == 0


def test_the_systems_own_clocks_never_go_backwards():
    """The real thing, read many times."""
    clock = Clock()
    readings = [clock() for _ in range(1000)]
    assert readings == sorted(readings)
    assert isinstance(readings[0], int)
