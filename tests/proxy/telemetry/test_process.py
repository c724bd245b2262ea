"""Memory, descriptors, CPU time and start of this process as the system reports them, and the event loop's lag."""

import os
import resource
import time
from pathlib import Path

import psutil
import pytest
import trio

from proxy.telemetry import facts
from proxy.telemetry import loop_lag as beating
from proxy.telemetry.facts import read_process
from proxy.telemetry.loop_lag import EVERY_S, MEASUREMENTS, START_S, LoopLag


def test_the_figures_agree_with_psutil() -> None:
    """They are memory, descriptors and the start time."""
    own, other = read_process(), psutil.Process()

    assert own.resident_bytes == pytest.approx(other.memory_info().rss, rel=0.05)
    assert own.open_fds == other.num_fds() - 1  # psutil counts the descriptor of its own listing
    assert own.max_fds == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert own.started_s == pytest.approx(other.create_time(), abs=1.5)


@pytest.mark.parametrize("told", [True, False])
def test_the_count_of_descriptors_follows_opens_and_closes(
    *, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The descriptor of its own listing is not counted; with and without the kernel's count."""
    if told and not facts._is_count_the_size():
        pytest.skip("this kernel does not tell the number of descriptors (Linux before 6.2)")
    monkeypatch.setattr(facts, "_IS_SIZE", told)
    before = read_process().open_fds
    opened = os.open(os.devnull, os.O_RDONLY)
    during = read_process().open_fds
    os.close(opened)

    assert (during, read_process().open_fds) == (before + 1, before)


def test_cpu_time_grows_with_work() -> None:
    """It grows by about the time that the test burns."""
    before, begun = read_process().cpu_s, time.process_time()
    while time.process_time() - begun < 0.05:
        pass

    assert read_process().cpu_s - before == pytest.approx(0.05, abs=0.04)


def test_the_programs_name_does_not_disturb_the_fields(tmp_path: Path) -> None:
    """It may contain brackets and blanks."""
    (tmp_path / "self").mkdir()
    (tmp_path / "uptime").write_text("100.00 50.00\n")
    fields = " ".join(str(n) for n in range(3, 22))
    (tmp_path / "self/stat").write_text(f"1 (a) b) (c) {fields} 5000 23\n")

    ticks = os.sysconf("SC_CLK_TCK")
    assert facts._started_s(tmp_path) == pytest.approx(time.time() - 100 + 5000 / ticks, abs=9)


def test_the_kernels_count_of_descriptors_is_verified_before_use(tmp_path: Path) -> None:
    """On other kernels the size of the folder is not a count, or is missing."""
    (tmp_path / "0").touch()

    assert not facts._is_count_the_size(tmp_path)
    assert not facts._is_count_the_size(tmp_path / "gone")


def test_without_proc_the_figures_are_0(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The metrics page works all the same."""
    monkeypatch.setattr(facts, "_PROC", tmp_path)

    own = read_process()

    assert (own.resident_bytes, own.open_fds) == (0, 0)
    assert facts._started_s(tmp_path) == pytest.approx(time.time(), abs=60)


async def test_a_loop_that_is_never_late_has_no_lag(autojump_clock, nursery):
    """Before the first beat it is None, not 0; the clock of the test jumps exactly to the deadline."""
    assert LoopLag().quantiles_ms() is None
    assert LoopLag().p99_ms() == 0.0

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
    await trio.sleep(START_S + MEASUREMENTS * EVERY_S + 0.15)
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
