"""One run."""

import json
import subprocess
import sys
from array import array
from pathlib import Path

import pytest

from bench.purgatory.play import Book
from bench.purgatory.run import lateness_us
from bench.purgatory.workload import Workload

ROOT = Path(__file__).resolve().parents[3]
DRAWN = Workload(array("q", [0, 3, 2, 2]), array("i", [0, 1, 2, 3, 1]))


def test_lateness_is_from_the_deadline_to_the_end_of_the_step_that_fired_it():
    """Sorted, in microseconds."""
    book = Book([10, 11, 12])
    book.fired_us = [(1, 10_250), (3, 12_700)]
    assert lateness_us(book) == [250, 700, 1700]


@pytest.mark.parametrize("name", ["list", "heap", "simple", "hashed", "linked", "wheel", "loop"])
def test_every_candidate_plays_to_the_end(name, tmp_path):
    """In a process of its own; what it prints is what was played."""
    DRAWN.save(tmp_path / "all")
    done = subprocess.run(
        [sys.executable, "-m", "bench.purgatory.run", name, str(tmp_path / "all")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    said = json.loads(done.stdout)
    assert said["requests"] == 5
    assert said["expired"] == 0
    assert said["target"] == 2500
    assert said["cpu_us"] > 0
    assert (said["blocks"] >= 1) == (name != "loop")  # the request at least
