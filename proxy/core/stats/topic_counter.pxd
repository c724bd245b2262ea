# Types of topic_counter.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.stats.topic_usage cimport Flow, Pair, TopicUsage
from wire cimport topic_runs
from wire.fetch_topics cimport FetchTopics
from wire.record_batches cimport TopicCount, new_count
from wire.topic_counts cimport TopicShape, count_reply, count_request


cdef class TopicCounter:
    cdef public str _user
    cdef public bytes _topic
    cdef public list _found
    cdef public Pair _pair
    cdef public Flow _flow
    cdef public long long _batch_bytes, _batches, _field_bytes, _left, _partitions, _records, _second, _size_bytes
    cdef public long long _topics_at, _version
    cdef public FetchTopics _walker
    cdef public TopicShape _shape
    cdef public TopicUsage _usage

    @cython.locals(
        topic=bytes, shape=TopicShape, at=cython.longlong, after=cython.longlong, partitions=cython.longlong,
        size_bytes=cython.longlong, batches=cython.longlong, records=cython.longlong, counts=list,
        count=TopicCount, steps=cython.longlong,
    )
    cpdef long long read(self, bytearray buf, long long pos, long long stop, long long most) except -2
    cpdef produced(self)

    @cython.locals(
        topic=bytes, shape=TopicShape, at=cython.longlong, most=cython.longlong, after=cython.longlong,
        partitions=cython.longlong, size_bytes=cython.longlong, batches=cython.longlong, records=cython.longlong,
        counts=list, walker=FetchTopics,
    )
    cpdef fetched(self, bytearray buf, long long start, long long stop)
    cdef _begin_second(self, Flow flow)
    cdef _know_only(self, list counts)
    cpdef feed(self, FetchTopics walker, bytearray buf, long long start, long long end)
    cpdef FetchTopics walker(self)
    cpdef walked(self, FetchTopics walker)

    @cython.locals(topic=bytes, shape=TopicShape, at=cython.longlong, most=cython.longlong, left=cython.longlong)
    cpdef begin(self, bytearray buf, long long start, long long end)

    @cython.locals(
        shape=TopicShape, left=cython.longlong, field_bytes=cython.longlong, batch_bytes=cython.longlong,
        partitions=cython.longlong, size_bytes=cython.longlong, batches=cython.longlong, records=cython.longlong,
    )
    cpdef follow(self, bytearray buf, long long start, long long end)
    cpdef end(self)

    @cython.locals(walker=FetchTopics)
    cpdef FetchTopics take_walker(self)

    @cython.locals(count=TopicCount, walker=FetchTopics)
    cdef FetchTopics _resumed(self)
