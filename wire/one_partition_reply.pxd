# Types of one_partition_reply.py for the compiled build. The rules are in the .py file.

cimport cython

from wire cimport one_partition_reads


cdef class OnePartitionReply:
    cdef public bint by_id
    cdef public long long fixed_bytes

    @cython.locals(
        topic_bytes=cython.longlong, head=cython.longlong, name_bytes=cython.longlong,
        partitions=cython.longlong, ends=cython.longlong, tags=cython.longlong,
    )
    cpdef bint matches(self, bytearray buf, long long start, long long stop) except -1
