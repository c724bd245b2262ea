# Types of record_batches.py for the compiled build. The rules are in the .py file.

cimport cython

from wire cimport topic_runs


cdef class TopicCount:
    cdef public object owner
    cdef public bytes topic
    cdef public long long batches, partitions, records, size_bytes


@cython.locals(count=TopicCount)
cpdef TopicCount new_count(bytes topic)


cdef class BatchCounter:
    cdef public TopicCount _count
    cdef public bytearray _head
    cdef public long long _skip_bytes

    cpdef begin(self, TopicCount count)
    cpdef resume(self, TopicCount count, long long skip_bytes)

    @cython.locals(
        head=bytearray, batches=cython.longlong, wanted=cython.longlong, step=cython.longlong, size=cython.longlong,
        records=cython.longlong,
    )
    cpdef long long feed(self, bytearray buf, long long start, long long end) except? -2
