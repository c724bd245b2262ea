# cython: language_level=3
"""Tells Callgrind, below which this process runs, which part to count."""

cdef extern from *:
    """
    #include <valgrind/callgrind.h>
    static void start_counting(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
    static void toggle_counting(void) { CALLGRIND_TOGGLE_COLLECT; }
    static void stop_counting(const char *name) { CALLGRIND_DUMP_STATS_AT(name); CALLGRIND_STOP_INSTRUMENTATION; }
    """
    void start_counting()
    void toggle_counting()
    void stop_counting(const char *name)


def start():
    """Begin with nothing; what runs until the first `toggle` is not counted."""
    start_counting()


def toggle():
    """Count from now on, or no more."""
    toggle_counting()


def stop(str name):
    """Write what was counted under a name."""
    stop_counting(name.encode())
