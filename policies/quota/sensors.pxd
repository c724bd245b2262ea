# Types of sensors.py for the compiled build. The rules are in the .py file.

cimport cython


cdef class _SampleWindow:
    cdef public long long begun_ms, count, last_ms, max_ms, sum_ms


cdef class ThrottleTime:
    cdef public list _windows

    @cython.locals(begun_ms=cython.longlong, windows=list, window=_SampleWindow)
    cpdef record(self, long long throttle_time_ms, long long now_ms)
