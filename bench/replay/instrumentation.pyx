# cython: language_level=3
"""Tells Callgrind, below which this process runs, which part to count."""

cdef extern from *:
    """
    #include <valgrind/callgrind.h>
    static void start_counting(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
    static void stop_counting(const char *name) { CALLGRIND_DUMP_STATS_AT(name); CALLGRIND_STOP_INSTRUMENTATION; }
    """
    void start_counting()
    void stop_counting(const char *name)


def start():
    """Count from now on."""
    start_counting()


def stop(str name):
    """Write what was counted under a name, and count no more."""
    stop_counting(name.encode())
