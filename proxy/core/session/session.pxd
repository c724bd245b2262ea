# Types of session.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session cimport broker_waits, crowding, fast_replies, fast_requests, mutes, reply_stream
from proxy.core.session cimport request_stream
from proxy.core.session.link cimport Link


cdef class Session(Link):
    cdef public object on_released, replies, route
    cdef public long long opened_ms

    @cython.locals(pos=cython.longlong, due=cython.longlong, diverted=cython.bint)
    cpdef long long from_client(
        self, bytearray buf, long long start, long long end, long long now_ms
    ) except? -2

    cdef long long _rest_of_requests(
        self, bytearray buf, settled, long long end, long long now_ms
    ) except? -2

    @cython.locals(pos=cython.longlong)
    cpdef long long from_broker(
        self, bytearray buf, long long start, long long end, long long now_ms
    ) except? -2

    cdef long long _rest_of_replies(
        self, bytearray buf, settled, long long end, long long now_ms
    ) except? -2

    cpdef resume(self)
    cpdef on_turn_over(self)
    cpdef end(self, reason, detail, long long now_ms)
    cpdef end_after_replies(self, reason, detail=*)
    cpdef maybe_end(self)
    cpdef client_gone(self, long long now_ms)
    cpdef upstream_closed(self)
    cpdef release(self, long long now_ms)
