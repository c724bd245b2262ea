# Types of play.py for the compiled candidate. The rules are in the .py file.

cimport cython

from proxy.core.purgatory.purgatory cimport DelayedOperation, Purgatory


cdef class Book:
    cdef public long long completed, expired
    cdef public object deadlines_ms
    cdef public list fired_us


cdef class Request(DelayedOperation):
    cdef public Book book
    cdef public long long completes_ms

    cpdef bint try_complete(self, long long now_ms) except -1
    cpdef on_complete(self, long long now_ms)
    cpdef on_expiration(self, long long now_ms)


cdef class Player:
    cdef public object _kind, queue
    cdef public list _ring
    cdef public long long _now_ms, _start_ns, enqueued_us
    cdef public Book book
    cdef public Purgatory purgatory

    @cython.locals(
        book=Book, ring=list, done=cython.longlong, now_ms=cython.longlong,
        latency_ms=cython.longlong, request=Request,
    )
    cpdef play(self, slots, latencies_ms, keys, long long timeout_ms)

    @cython.locals(elapsed_ns=cython.longlong, now_ms=cython.longlong)
    cpdef long long _wait(self, long long until_ms) except -1

    @cython.locals(book=Book, ring=list, requests=list, request=Request, before=cython.longlong)
    cpdef _step(self, long long now_ms)
