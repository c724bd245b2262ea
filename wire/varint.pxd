# Types of varint.py for the compiled build. The rules are in the .py file.

cimport cython


@cython.locals(byte=cython.longlong, value=cython.longlong, stop=cython.longlong)
cpdef (long long, long long) uvarint(buf, long long pos, long long end) except *

@cython.locals(value=cython.longlong, shift=cython.longlong, byte=cython.longlong)
cpdef (long long, long long) try_uvarint(buf, long long pos, long long end) except *
