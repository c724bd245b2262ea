"""CPU time and memory of process trees."""

import os
import threading
import time

from bench.harness.usage import cpu_ns, field_bytes, peak_bytes, reset_peak, resident_bytes, tree

PEAK_BYTES = 64 << 20
NEAR_BYTES = 8 << 20


def test_a_tree_has_the_descendants() -> None:
    """This process descends from its parent; the root comes first."""
    assert os.getpid() in tree(os.getppid())
    assert tree(os.getpid())[0] == os.getpid()


def test_cpu_time_grows_with_work() -> None:
    """A busy loop is counted in nanoseconds."""
    before = cpu_ns(os.getpid())
    sum(range(3_000_000))
    os.sched_yield()
    assert cpu_ns(os.getpid()) > before


def test_the_cpu_time_of_a_thread_that_has_ended_still_counts() -> None:
    """A proxy's helper threads come and go during a run."""
    took_ns: list[int] = []

    def work() -> None:
        sum(range(3_000_000))
        took_ns.append(time.thread_time_ns())

    before = cpu_ns(os.getpid())
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert cpu_ns(os.getpid()) >= before + took_ns[0] > before


def test_resident_memory_is_that_of_a_python_process() -> None:
    """It is between a megabyte and a few gigabytes."""
    assert 1e6 < resident_bytes(os.getpid()) < 8e9


def test_a_peak_lasts_until_it_is_reset() -> None:
    """After that it is the current resident size."""
    me = os.getpid()
    reset_peak(me)
    before = resident_bytes(me)
    held = bytearray(b"x") * PEAK_BYTES
    del held
    assert peak_bytes(me) > before + PEAK_BYTES - NEAR_BYTES
    reset_peak(me)
    assert peak_bytes(me) < before + PEAK_BYTES - NEAR_BYTES


def test_a_field_is_read_in_kib() -> None:
    """Its name must match exactly; an ending process has no such field."""
    status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t     512 kB\n"
    assert field_bytes(status, "VmRSS") == 512 << 10
    assert field_bytes(status, "VmHWM") == 2 << 20
    assert field_bytes("Name:\tx\n", "VmRSS") == 0
