# Types of usage.py for the compiled build. The rules are in the .py file.

cimport cython


cdef class Duration:
    cdef public long long _since_ms, count, spent_ms

    cpdef change(self, long long by, long long now_ms)


cdef class Usage:
    cdef public long long request_bytes, requests, response_bytes
    cdef public bint is_active
    cdef public list _active
    cdef public Duration blocked, muted
    cdef public object client_id, user
    cdef public long long connections, exempt, exempt_bytes, max_connections, throttle_ms, throttle_ms_max
    cdef public long long throttled, uncharged, uncharged_bytes

    cpdef touch(self)
    cpdef throttle(self, long long throttle_time_ms, long long requests)
    cpdef defer(self, long long size_bytes)

    @cython.locals(blocked=Duration, muted=Duration, blocked_ms=cython.longlong, mute_ms=cython.longlong)
    cpdef take(self, long long ts_ms, long long ends_ms)


cdef class UsageBook:
    cdef public object _on_second
    cdef public long long ends_ms
    cdef public dict keys
    cdef public list _active, _left, gone

    cpdef leave(self, Usage usage)

    @cython.locals(begun_ms=cython.longlong)
    cpdef roll(self, long long now_ms)

    @cython.locals(usage=Usage, left=list)
    cdef _drop_left(self)

    @cython.locals(usage=Usage, active=list, ends_ms=cython.longlong, ts_ms=cython.longlong)
    cdef _end_second(self)
