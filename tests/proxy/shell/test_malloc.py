"""The C library's heap: large pieces that are freed are no longer resident."""

import platform
import subprocess
import sys

import pytest

from proxy.shell import malloc
from proxy.shell.event_loop import READ_BYTES

SCRIPT = """
import random, resource
from proxy.shell.malloc import map_large_pieces

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 2**20

assert map_large_pieces()
random.seed(1)
chunk = bytes(65536)
before = resident()
frames = [bytearray() for _ in range(8)]
worst = 0.0
for turn in range(8000):
    place = random.randrange(8)
    frames[place] += chunk
    if len(frames[place]) > random.choice([1 << 20, 12 << 20]):
        frames[place] = bytearray()
    if turn % 50 == 0:
        worst = max(worst, resident() - before - sum(map(len, frames)) / 2**20)
print(worst)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's own setting")
def test_frames_that_grow_side_by_side_leave_no_holes_in_the_heap():
    """Resident memory exceeds the bytes in the frames by less than 8 MiB."""
    run = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True)
    assert float(run.stdout) < 8


def test_a_read_is_smaller_than_the_pieces_that_are_mapped():
    """Remainders of streamed frames therefore stay on the ordinary heap."""
    assert malloc.THRESHOLD_BYTES > READ_BYTES


def test_a_library_without_the_setting_is_no_fault(monkeypatch):
    """`map_large_pieces` returns False."""
    monkeypatch.setattr(malloc.ctypes, "CDLL", lambda _: object())
    assert malloc.map_large_pieces() is False


RETURNED = """
import resource
from proxy.shell.malloc import return_freed_memory

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 2**20

pieces = [bytes(1024) for _ in range(16384)]
kept = pieces[-1]
pieces.clear()
before = resident()
assert return_freed_memory()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's own function")
def test_freed_memory_is_returned_although_something_lies_above_it():
    """Of 16 MiB in small pieces that were freed, most is no longer resident; one piece above them is kept."""
    run = subprocess.run(
        [sys.executable, "-c", RETURNED], check=True, capture_output=True, text=True
    )
    assert float(run.stdout) > 8
