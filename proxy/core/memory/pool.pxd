# Types of pool.py for the compiled build. The rules are in the .py file.


cdef class MemoryPool:
    cdef public object _depleted_since_ms, _limit_bytes, _now_ms, max_single_bytes
    cdef public object on_depleted, on_recovered, on_release
    cdef public long long _past_ms, carried_bytes, near_limit_bytes, peak_bytes, used_bytes
    cdef public bint is_waited_for, near_limit

    cpdef force_allocate(self, long long size_bytes)
    cpdef release(self, long long size_bytes)
