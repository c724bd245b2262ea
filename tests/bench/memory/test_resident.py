"""Resident memory, now and at most."""

from __future__ import annotations

import os

from bench.memory.resident import (
    field_bytes,
    forget_most,
    most_resident_bytes,
    resident_bytes,
)

PEAK_BYTES = 64 << 20
NEAR_BYTES = 8 << 20


def test_a_peak_is_seen_after_it_is_over_and_can_be_forgotten() -> None:
    """The kernel keeps the mark; set back, it is what is resident now."""
    me = os.getpid()
    forget_most(me)
    before = resident_bytes(me)
    held = bytearray(b"x") * PEAK_BYTES
    del held
    assert most_resident_bytes(me) > before + PEAK_BYTES - NEAR_BYTES
    forget_most(me)
    assert most_resident_bytes(me) < before + PEAK_BYTES - NEAR_BYTES


def test_a_figure_is_read_in_kib() -> None:
    """By its exact name; a process that is ending has none."""
    status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t     512 kB\n"
    assert field_bytes(status, "VmRSS") == 512 << 10
    assert field_bytes(status, "VmHWM") == 2 << 20
    assert field_bytes("Name:\tx\n", "VmRSS") == 0
