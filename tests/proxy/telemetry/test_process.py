"""What the system says of this very process."""

from __future__ import annotations

import os
import resource
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from proxy.telemetry import process
from proxy.telemetry.process import read_process

if TYPE_CHECKING:
    from pathlib import Path


def test_it_says_what_another_reader_says() -> None:
    """Memory, descriptors and start agree with psutil's."""
    own, other = read_process(), psutil.Process()

    assert own.resident_bytes == pytest.approx(other.memory_info().rss, rel=0.05)
    assert own.open_fds == other.num_fds() - 1  # that one counts its own listing
    assert own.max_fds == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert own.started_s == pytest.approx(other.create_time(), abs=1.5)


@pytest.mark.parametrize("told", [True, False])
def test_a_descriptor_more_is_one_more(*, told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count follows what is opened and closed, and its own listing is not in it; with the kernel's help or not."""
    if told and not process._is_count_the_size():
        pytest.skip("this kernel does not tell the number of descriptors (Linux before 6.2)")
    monkeypatch.setattr(process, "_IS_SIZE", told)
    before = read_process().open_fds
    opened = os.open(os.devnull, os.O_RDONLY)
    during = read_process().open_fds
    os.close(opened)

    assert (during, read_process().open_fds) == (before + 1, before)


def test_cpu_time_is_spent_by_working() -> None:
    """CPU time grows by about what this process burns."""
    before, begun = read_process().cpu_s, time.process_time()
    while time.process_time() - begun < 0.05:
        pass

    assert read_process().cpu_s - before == pytest.approx(0.05, abs=0.04)


def test_a_program_may_have_any_name(tmp_path: Path) -> None:
    """Brackets and blanks in the program's name do not shift the fields."""
    (tmp_path / "self").mkdir()
    (tmp_path / "uptime").write_text("100.00 50.00\n")
    fields = " ".join(str(n) for n in range(3, 22))
    (tmp_path / "self/stat").write_text(f"1 (a) b) (c) {fields} 5000 23\n")

    ticks = os.sysconf("SC_CLK_TCK")
    assert process._started_s(tmp_path) == pytest.approx(time.time() - 100 + 5000 / ticks, abs=9)


def test_what_a_kernel_tells_is_believed_only_if_it_is_so(tmp_path: Path) -> None:
    """A folder's size that is no count of what is in it is not taken for one; nor is none."""
    (tmp_path / "0").touch()

    assert not process._is_count_the_size(tmp_path)
    assert not process._is_count_the_size(tmp_path / "gone")


def test_where_there_is_no_proc_there_are_noughts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A system without /proc costs the figures, not the page."""
    monkeypatch.setattr(process, "_PROC", tmp_path)

    own = read_process()

    assert (own.resident_bytes, own.open_fds) == (0, 0)
    assert process._started_s(tmp_path) == pytest.approx(time.time(), abs=60)
