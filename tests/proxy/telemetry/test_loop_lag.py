"""The event loop's lag and the process's CPU use."""

import pytest
import trio

from proxy.telemetry import loop_lag as beating
from proxy.telemetry.loop_lag import EVERY_S, KEPT, START_S, LoopLag


async def test_before_the_first_beat_the_lag_is_unknown():
    """It is None, not 0."""
    assert LoopLag().quantiles_ms() is None
    assert LoopLag().p99_ms() == 0.0


async def test_a_loop_that_is_never_late_has_no_lag(autojump_clock, nursery):
    """The clock of the test jumps exactly to the deadline."""
    loop_lag = LoopLag()
    nursery.start_soon(loop_lag.beat)
    await trio.sleep(5)
    assert loop_lag.quantiles_ms() == (0.0, 0.0)


async def test_the_start_of_the_process_is_not_counted_as_lag(monkeypatch, autojump_clock, nursery):
    """Imports and binding block the loop in the first second, when no client waits."""
    sleep_until, began = trio.sleep_until, trio.current_time()

    async def late(due: float) -> None:
        await sleep_until(due + (0.3 if trio.current_time() < began + START_S else 0))

    monkeypatch.setattr(beating.trio, "sleep_until", late)
    loop_lag = LoopLag()
    nursery.start_soon(loop_lag.beat)
    await trio.sleep(5)
    assert loop_lag.p99_ms() == 0.0


async def test_late_beats_are_in_the_percentiles(monkeypatch, autojump_clock, nursery):
    """Two of a hundred beats that are 50 ms late change the 99th percentile and not the median."""
    beats = [0]
    sleep_until = trio.sleep_until

    async def late(due: float) -> None:
        beats[0] += 1
        await sleep_until(due + (0.05 if beats[0] in {10, 20} else 0))

    monkeypatch.setattr(beating.trio, "sleep_until", late)
    loop_lag = LoopLag()
    nursery.start_soon(loop_lag.beat)
    await trio.sleep(START_S + KEPT * EVERY_S + 0.15)
    median, p99 = loop_lag.quantiles_ms() or (0, 0)
    assert median == pytest.approx(0, abs=0.01)
    assert p99 == pytest.approx(50, abs=0.1)
    assert loop_lag.p99_ms() == p99


async def test_cpu_use_is_the_share_of_the_last_second(autojump_clock, nursery):
    """It is a share of one core."""
    loop_lag = LoopLag(cpu_s=lambda: trio.current_time() * 0.25)
    nursery.start_soon(loop_lag.beat)
    await trio.sleep(2.5)
    assert loop_lag.cpu_percent == pytest.approx(25)
