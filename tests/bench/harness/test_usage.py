"""CPU time and memory of process trees."""

import os
import threading
import time

from bench.harness.usage import cpu_ns, field_bytes, peak_bytes, reset_peak, resident_bytes

PEAK_BYTES = 64 << 20
NEAR_BYTES = 8 << 20


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
