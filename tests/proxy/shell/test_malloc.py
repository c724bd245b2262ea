"""Memory: large pieces that are freed are no longer resident, and an idle connection is small."""

import gc
import platform
import struct
import subprocess
import sys
import tracemalloc

import pytest

from proxy.core.session.in_flight import UNCOUNTED
from proxy.shell import malloc
from proxy.shell.loop_limits import READ_BYTES
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f
from tests.support.shell.sockets import receive

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


def test_a_read_is_smaller_than_the_pieces_that_are_mapped(monkeypatch):
    """Remainders of streamed frames stay on the ordinary heap. Without the setting `map_large_pieces` returns False."""
    assert malloc.THRESHOLD_BYTES > READ_BYTES

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


PAIRS = 20
MAX_BYTES = 3_200
"""Without its two sockets, and the share of the tables of all connections. In CPython 3.11: 3,060."""


def answered(bench) -> None:
    """Connect a client that has asked for the versions, and has produced once."""
    client, broker, _ = bench.link()
    asked = f.request(18, 0, 1, b"")
    client.sendall(asked)
    bench.run(0.005)
    receive(broker, len(asked))
    versions = f.reply(1, struct.pack(">hihhh", 0, 1, 0, 0, 9))
    broker.sendall(versions)
    bench.run(0.005)
    receive(client, len(versions))
    client.sendall(f.produce(2))
    bench.run(0.005)
    receive(broker, len(f.produce(2)))
    broker.sendall(f.produce_reply(2))
    bench.run(0.005)
    receive(client, len(f.produce_reply(2)))


def test_an_idle_connection_is_small(bench):
    """One answered request leaves little behind: no buffer, no queue, no plan for what is asked once."""
    answered(bench)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(PAIRS):
            answered(bench)
        gc.collect()
        taken = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    ours = taken.filter_traces([tracemalloc.Filter(True, "*/proxy/*")])
    size_bytes = sum(each.size for each in ours.statistics("filename")) / PAIRS

    assert size_bytes < MAX_BYTES


def test_a_queue_is_a_deque_only_while_it_may_be_long():
    """Up to UNCOUNTED requests in flight a list holds them; with more, a reply would have to move them all."""
    wire = Wire()
    wire.client(b"".join(f.beat(n) for n in range(UNCOUNTED)))
    assert isinstance(wire.session.queue.entries, list)
    wire.client(b"".join(f.beat(n) for n in range(UNCOUNTED, 1000)))
    assert not isinstance(wire.session.queue.entries, list)

    replies = b"".join(f.beat_reply(n) for n in range(1000))
    assert wire.broker(replies).to_client == replies
    assert len(wire.session.queue) == 0
