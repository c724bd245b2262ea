# Types of record_batches.py for the compiled build. The rules are in the .py file.

cimport cython


cdef class BatchCounter:
    cdef public bytearray _head
    cdef public long long _skip_bytes, batches, records

    cpdef begin(self)

    @cython.locals(step=cython.longlong, wanted=cython.longlong, head=bytearray)
    cpdef feed(self, buf, long long start, long long end)

    @cython.locals(whole_bytes=cython.longlong)
    cpdef long long _count(self, buf, long long at) except? -2
