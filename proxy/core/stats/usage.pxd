# Types of usage.py for the compiled build. The rules are in the .py file.


cdef class Duration:
    cdef public long long _since_ms, count, spent_ms

    cpdef change(self, long long by, long long now_ms)


cdef class Usage:
    cdef public Duration blocked, muted
    cdef public object client_id, user
    cdef public long long connections, exempt, exempt_bytes, max_connections, request_bytes, requests
    cdef public long long response_bytes, throttle_ms, throttle_ms_max, throttled, uncharged
    cdef public long long uncharged_bytes

    cpdef throttle(self, long long throttle_time_ms, long long requests)


cdef class UsageBook:
    cdef public object _on_second
    cdef public long long ends_ms
    cdef public dict keys
