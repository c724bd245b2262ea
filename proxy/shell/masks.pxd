# The constants of masks.py in C, for the compiled build.

cdef enum:
    IN = 1
    OUT = 4
    ERR = 8
    HUP = 16
    RDHUP = 8192
    EARLY = 1048576
    SLOWED = 2097152
    LINGERING = -1
    NO_EVENT = -2
