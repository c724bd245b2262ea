"""The clock: the time of day at its start, elapsed time from then on. How many clients fit below the limit of files."""

import resource

import pytest

from proxy.shell import clock as clock_module
from proxy.shell import system_calls
from proxy.shell.clock import Clock
from proxy.shell.descriptors import RESERVED, connection_limit

EPOCH_MS = 1_700_000_000_123
MS = 1_000_000


class FakeTime:
    """Two clocks that a test sets: the wall clock may jump, the monotonic one cannot."""

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
    monkeypatch.setattr(system_calls, "monotonic_ns", made.monotonic_ns)
    return made


def test_the_clock_starts_at_the_time_of_day_and_advances_by_elapsed_time(fake):
    """Whole milliseconds; fractions add up and none is lost; while both clocks advance alike the drift is 0."""
    assert Clock()() == EPOCH_MS

    clock = Clock()
    for _ in range(10):
        fake.pass_ns(MS // 4)
    assert clock() == EPOCH_MS + 2
    fake.pass_ns(MS // 2)
    assert clock() == EPOCH_MS + 3

    clock = Clock()
    fake.pass_ns(123_456_789)
    assert clock.drift_ms() == 0


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
def test_the_clock_never_jumps_with_the_wall_clock(fake, jump_ms):
    """Setting the wall clock changes the reported drift only."""
    clock = Clock()
    fake.wall_ns += jump_ms * MS
    fake.pass_ns(5 * MS)
    assert clock() == EPOCH_MS + 5
    assert clock.drift_ms() == jump_ms


def test_the_systems_own_clocks_never_go_backwards():
    """A thousand readings of a real clock are sorted and are integers."""
    clock = Clock()
    readings = [clock() for _ in range(1000)]
    assert readings == sorted(readings)
    assert isinstance(readings[0], int)


@pytest.mark.parametrize(
    ("wanted", "soft", "expected"), [(0, 1064, 495), (10, 1064, 10), (600, 1064, 495), (0, 10, 1)]
)
def test_the_connection_limit_fits_the_descriptor_limit(monkeypatch, wanted, soft, expected):
    """A client takes two of the descriptors that the rest of the process leaves; the setting may lower the limit."""
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    assert RESERVED == 64
    assert connection_limit(wanted, others=10) == expected
