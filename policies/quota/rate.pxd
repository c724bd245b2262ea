# Types of rate.py for the compiled build. The rules are in the .py file.

cimport cython


cdef class SampledRate:
    cdef public long long last_ms, valid_ms
    cdef public double sum
    cdef public long long _begun_ms, _min_span_ms, _oldest_ms, _span_ms, _window_ms
    cdef public list _closed
    cdef public double _closed_sum

    cpdef record(self, double value, long long now_ms)

    @cython.locals(elapsed_ms=cython.longlong, min_span_ms=cython.longlong)
    cpdef long long window_ms_at(self, long long now_ms) except -1

    cpdef double rate_for_delay(self, double delay_ms, double bound, long long now_ms) except? -1

    @cython.locals(total=cython.double, elapsed_ms=cython.longlong, min_span_ms=cython.longlong)
    cpdef observe(self, long long now_ms)


cdef class ReleaseSchedule:
    cdef public double burst_ms, pass_ms, unit_ms

    cpdef double delay_ms(self, double now_ms) except? -1

    @cython.locals(earliest_ms=cython.double, pass_ms=cython.double)
    cpdef double charge(self, double cost, double now_ms) except? -1
