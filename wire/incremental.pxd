# Types of incremental.py for the compiled build. The rules are in the .py file.

cimport cython

from wire cimport topic_runs
from wire.varint cimport try_uvarint


@cython.locals(length=cython.longlong)
cpdef (long long, long long) try_string(buf, long long pos, long long end, bint compact) except *

@cython.locals(size=cython.longlong, after=cython.longlong)
cpdef (long long, long long) try_size(bytearray buf, long long pos, long long end, bint compact) except *
