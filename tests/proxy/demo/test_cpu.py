"""Cpu: who used the machine, from a made-up /proc and from the real one."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from proxy.demo.cpu import Used, maybe_others, maybe_used

if TYPE_CHECKING:
    from pathlib import Path


def write(proc: Path, line: str, used: dict[int, tuple[int, int]]) -> None:
    """Make a /proc with this first line of stat, and processes that used so much."""
    proc.mkdir(exist_ok=True)
    (proc / "stat").write_text(f"{line}\ncpu0 1 2 3\n")
    for pid, (user, system) in used.items():
        (proc / str(pid)).mkdir(exist_ok=True)
        fields = ["S", *["0"] * 10, str(user), str(system), *["0"] * 30]
        (proc / str(pid) / "stat").write_text(f"{pid} (a (b) c) {' '.join(fields)}")


def test_what_is_neither_ours_nor_an_interrupt_is_others(tmp_path: Path) -> None:
    """Steal counts as others', interrupts as nobody's; names with parentheses are no trap."""
    write(tmp_path, "cpu 100 0 100 1000 0 10 10 0 0 0", {7: (50, 20), 8: (10, 0)})
    before = maybe_used([7, 8], tmp_path)
    write(tmp_path, "cpu 130 10 110 1100 0 40 20 10 0 0", {7: (60, 25), 8: (15, 0)})
    after = maybe_used([7, 8], tmp_path)

    assert before == Used(there_was=1220, by_all=200, by_us=80)
    assert after == Used(there_was=1420, by_all=260, by_us=100)
    assert maybe_others(before, after) == pytest.approx((60 - 20) / 200)


def test_what_cannot_be_seen_is_not_known(tmp_path: Path) -> None:
    """Without /proc, for a process that is gone, or between two looks of one tick, nothing is told."""
    write(tmp_path / "proc", "cpu 1 1 1 1 1 1 1 1", {7: (1, 1)})
    seen = maybe_used([7], tmp_path / "proc")

    assert maybe_used([7], tmp_path / "nowhere") is None
    assert maybe_used([9], tmp_path / "proc") is None
    assert maybe_others(None, seen) is None
    assert maybe_others(seen, seen) is None


def test_others_have_no_less_than_nothing() -> None:
    """The kernel's two counts are not taken at the same moment: a share stays a share."""
    assert maybe_others(Used(0, 0, 0), Used(100, 20, 30)) == 0.0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this /proc")
def test_this_process_has_used_some() -> None:
    """The real /proc can be read."""
    used = maybe_used([os.getpid()])

    assert used is not None
    assert 0 < used.by_us <= used.by_all <= used.there_was
