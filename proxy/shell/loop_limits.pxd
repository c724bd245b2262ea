# The constants of loop_limits.py in C, for the compiled build.

cdef enum:
    READ_BYTES = 294912
    HEADROOM_BYTES = 425984
    MORE_READ_BYTES = 16384
    LARGE_BYTES = 1024
    STEP_EVENTS = 64
    STEP_BYTES = 1048576
    SLICE_BYTES = 65536
    SLICE_EVENTS = 8
    CROWD_EVENTS = 24
    STALL_US = 50000
    MAX_BUSY = 3
    TURN_MS = 4
    MANY_EVENTS = 4
    SLOW_STEP_MS = 5
