"""The limits of the event loop and of its driver. In the compiled build these are C constants."""

from __future__ import annotations

from typing import Final

READ_BYTES: Final = 288 << 10
"""The largest read: four take a frame of 1 MiB with its head. Reads of a power of two leave a fifth for the rest."""
HEADROOM_BYTES: Final = READ_BYTES + (128 << 10)
"""Room before each read for bytes carried over: a partial header, or frames of a muted channel."""
MORE_READ_BYTES: Final = 16 << 10
"""By how much reads grow again that were smaller, because not all bytes were accepted."""
LARGE_BYTES: Final = 1 << 10
"""Smaller reads count as events, not as bytes."""
STEP_EVENTS: Final = 64
STEP_BYTES: Final = 1 << 20
SLICE_BYTES: Final = 64 << 10
SLICE_EVENTS: Final = 8
"""The clock is read after so many bytes or events, and after each slow event."""
CROWD_EVENTS: Final = 24
"""Reads are smaller while a poll returns more: small requests do not wait for large ones."""
STALL_US: Final = 50_000
"""After a longer time between two steps the process was stalled, or asleep."""

MAX_BUSY: Final = 3
"""Polls without an event while Trio's tasks are ready. Then waiting in Trio is cheaper than a pass for each task."""
TURN_MS: Final = 4
"""How long to step before Trio's other tasks get their turn, if they have something to do."""
MANY_EVENTS: Final = 4
"""After so many events in one step the next wait is a millisecond at most."""
SLOW_STEP_MS: Final = 5
"""A step that took longer is reported. At least TURN_MS."""
