# Types of produce_topics.py for the compiled build. The rules are in the .py file.

cimport cython

from wire cimport produce_runs
from wire.produce cimport ProduceWalker
from wire.record_batches cimport BatchCounter, TopicCount, new_count
from wire.topic_counts cimport TopicShape, count_partitions


cdef class ProduceTopics(ProduceWalker):
    cdef public list per_topic
    cdef public bint _lenient, broken
    cdef public BatchCounter _batches
    cdef public TopicShape shape

    cpdef long long feed(self, buf, long long start, long long end, long long max_steps=*) except? -2

    @cython.locals(left=cython.longlong, after=cython.longlong, batches=cython.longlong, count=TopicCount)
    cpdef long long _take_partitions(self, bytearray buf, long long pos, long long end, long long limit) except? -2

    @cython.locals(packed=cython.longlong, after=cython.longlong, name_at=cython.longlong)
    cpdef long long _topic(self, bytearray buf, long long pos, long long end) except? -2

    @cython.locals(after=cython.longlong, count=TopicCount)
    cpdef long long _partition(self, bytearray buf, long long pos, long long end) except? -2
