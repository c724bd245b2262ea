"""Memory, descriptors, CPU time and start of this process, as the system reports them."""

import os
import resource
import time
from pathlib import Path

import psutil
import pytest

from proxy.telemetry import process
from proxy.telemetry.process import read_process


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
    if told and not process._is_count_the_size():
        pytest.skip("this kernel does not tell the number of descriptors (Linux before 6.2)")
    monkeypatch.setattr(process, "_IS_SIZE", told)
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
    assert process._started_s(tmp_path) == pytest.approx(time.time() - 100 + 5000 / ticks, abs=9)


def test_the_kernels_count_of_descriptors_is_verified_before_use(tmp_path: Path) -> None:
    """On other kernels the size of the folder is not a count, or is missing."""
    (tmp_path / "0").touch()

    assert not process._is_count_the_size(tmp_path)
    assert not process._is_count_the_size(tmp_path / "gone")


def test_without_proc_the_figures_are_0(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The metrics page works all the same."""
    monkeypatch.setattr(process, "_PROC", tmp_path)

    own = read_process()

    assert (own.resident_bytes, own.open_fds) == (0, 0)
    assert process._started_s(tmp_path) == pytest.approx(time.time(), abs=60)
