# Types of untagged_reply.py for the compiled build. The rules are in the .py file.

cimport cython

from wire cimport one_partition_reads, produce_runs, topic_runs


cdef class UntaggedReply:
    cdef public bint by_id
    cdef public long long one_partition_bytes

    @cython.locals(
        topic_bytes=cython.longlong, head=cython.longlong, name_bytes=cython.longlong, after=cython.longlong,
        partitions=cython.longlong, ends=cython.longlong, tags=cython.longlong,
    )
    cpdef bint matches(self, bytearray buf, long long start, long long stop) except -1


cdef class UntaggedFetch(UntaggedReply):
    @cython.locals(at=cython.longlong, topics=cython.longlong, after=cython.longlong, left=cython.longlong)
    cpdef bint matches(self, bytearray buf, long long start, long long stop) except -1
