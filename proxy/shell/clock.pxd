# Types of clock.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.shell cimport system_calls


cdef class Clock:
    cdef public long long _offset_ns

    @cython.locals(now_ns=cython.longlong)
    cpdef long long now_us(self) except? -1
