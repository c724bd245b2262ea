# Types of meters.py for the compiled build. The rules are in the .py file.

cimport cython


cdef class Meter:
    cdef public object api_key, client_id, name, node, user
    cdef public dict outcomes, parked, waits
    cdef public list upstream
    cdef public long long request_bytes, response_bytes

    cpdef count_bytes(self, long long request_bytes, long long response_bytes)
    cpdef count_wait(self, str stage, long long us)


@cython.locals(counts=list)
cdef _count(dict histograms, str key, long long us)
