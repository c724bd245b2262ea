"""Process trees, their CPU time and memory."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from bench.build import BenchError
from bench.processes import Program, cpu_ns, free_ports, resident_bytes, tree, wait_accepting

if TYPE_CHECKING:
    from pathlib import Path


def test_a_tree_has_its_grandchildren() -> None:
    """This process descends from its parent."""
    assert os.getpid() in tree(os.getppid())
    assert tree(os.getpid())[0] == os.getpid()


def test_cpu_time_grows_with_work() -> None:
    """A busy loop is seen, in nanoseconds of at least its own thread time."""
    before, own = cpu_ns(os.getpid()), os.times()
    sum(range(3_000_000))
    os.sched_yield()
    assert cpu_ns(os.getpid()) > before
    assert own.user >= 0


def test_resident_memory_is_that_of_a_python() -> None:
    """Between one megabyte and a few gigabytes."""
    assert 1e6 < resident_bytes(os.getpid()) < 8e9


def test_free_ports_avoid_a_bound_one() -> None:
    """A taken port is not handed out, nor a pair that includes it."""
    first = free_ports(2, 23000)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 1))
        assert free_ports(2, first) > first


def test_a_program_that_ends_is_reported_with_its_last_words(tmp_path: Path) -> None:
    """Who waits for a port learns why nobody listens."""
    core = min(os.sched_getaffinity(0))
    program = Program(
        [sys.executable, "-c", "import sys; sys.exit('bad config')"], core, tmp_path / "log"
    )
    with pytest.raises(BenchError, match="ended with 1: bad config"):
        wait_accepting(program, free_ports(1, 23000))
    program.stop()


def test_our_own_core_is_ours_again(tmp_path: Path) -> None:
    """Placing a child does not move us, and the child is where it was put."""
    before = os.sched_getaffinity(0)
    program = Program([sys.executable, "-c", "input()"], min(before), tmp_path / "log")
    try:
        assert os.sched_getaffinity(0) == before
        assert os.sched_getaffinity(program.pid) == {min(before)}
    finally:
        program.stop()
    assert program.process.returncode is not None
