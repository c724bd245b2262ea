# Types of produce_topics.py for the compiled build. The rules are in the .py file.

cimport cython

from wire.produce cimport ProduceWalker
from wire.record_batches cimport BatchCounter


cdef class TopicBytes:
    cdef public object topic
    cdef public long long partitions, size_bytes
    cdef public BatchCounter counter


cdef class ProduceTopics(ProduceWalker):
    cdef public list per_topic
    cdef public bint _lenient, broken

    cpdef long long feed(self, buf, long long start, long long end, long long max_steps=*) except? -2

    @cython.locals(after=cython.longlong)
    cpdef long long _topic(self, bytearray buf, long long pos, long long end) except? -2

    @cython.locals(after=cython.longlong, use=TopicBytes)
    cpdef long long _partition(self, bytearray buf, long long pos, long long end) except? -2
