# The constants of paths.py in C, for the compiled build.

cdef enum:
    PASSES = 0
    GATED = 1
    ASKED = 2
    SHOWN = 3
    GENERAL = 4

cdef enum:
    IF_UNTAGGED = 1
    HEARD = 2
