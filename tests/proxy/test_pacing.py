"""Work in a thread beside the event loop releases the interpreter after each short burst."""

import sys

import pytest

from proxy import pacing
from proxy.pacing import BURST_S, REST_S, in_bursts, run_in_bursts


def a_call() -> None:
    """Make a Python call, at which the thread may be paused."""


class FakeTime:
    """Each reading of the clock takes a tenth of a burst; sleeps are recorded."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []

    def perf_counter(self) -> float:
        self.now_s += BURST_S / 10
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@pytest.fixture
def fake_time(monkeypatch):
    made = FakeTime()
    monkeypatch.setattr(pacing, "time", made)
    return made


def test_the_thread_rests_after_each_burst(fake_time):
    """A thousand calls, of which each reads the clock twice, are two hundred bursts."""

    def work() -> str:
        for _ in range(1000):
            a_call()
        return "done"

    assert in_bursts(work) == "done"
    assert set(fake_time.slept) == {REST_S}
    assert 150 <= len(fake_time.slept) <= 250


@pytest.mark.usefixtures("fake_time")
def test_an_exception_is_raised_and_the_threads_profiler_is_restored():
    """Another profiler may have been set before."""
    before = sys.getprofile()

    def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        in_bursts(work)
    assert sys.getprofile() is before


async def test_the_event_loop_gets_the_result_of_the_work():
    """The work runs in a thread of its own."""
    assert await run_in_bursts(lambda: 7) == 7
