# Types of topic_usage.py for the compiled build. The rules are in the .py file.

cimport cython

from wire.fetch_topics cimport FetchTopics
from wire.produce_topics cimport ProduceTopics
from wire.record_batches cimport TopicCount
from wire.topic_counts cimport TopicShape


cdef class Flow:
    cdef public long long batches, frames, partitions, records, size_bytes

    cdef int add(self, long long partitions, long long size_bytes, long long batches, long long records) except -1


cdef class TopicUse:
    cdef public str topic, user
    cdef public Flow fetched, produced


cdef class Pair:
    cdef public str topic, user
    cdef public TopicUse use
    cdef public long long era, second


@cython.locals(use=TopicUse)
cdef TopicUse _new_use(Pair pair)

@cython.locals(flow=Flow)
cdef Flow _new_flow()


cdef class UserTopics:
    cdef public dict by_id, by_name, unnamed


cdef class TopicUsage:
    cdef public object names
    cdef public dict _users
    cdef public list _uses
    cdef public Pair other
    cdef public long long _pairs, era, second, unread

    cpdef ProduceTopics walker(self, long long version, bint lenient)
    cpdef fed(self, str user, ProduceTopics walker)
    cpdef produced(self, str user, ProduceTopics walker)

    @cython.locals(count=TopicCount, flow=Flow)
    cpdef add_produced(self, str user, TopicShape shape, list counts)
    cpdef feed(self, str user, FetchTopics walker, bytearray buf, long long start, long long end)
    cpdef fetched(self, str user, FetchTopics walker)

    @cython.locals(count=TopicCount, flow=Flow)
    cpdef add_fetched(self, str user, TopicShape shape, list counts)

    @cython.locals(count=TopicCount, pair=Pair, topics=UserTopics)
    cpdef bint look_up(self, str user, TopicShape shape, list counts) except -1
    @cython.locals(pair=Pair, topics=UserTopics)
    cpdef bint is_lasting(self, TopicCount count, TopicShape shape) except -1

    @cython.locals(pair=Pair, topics=UserTopics)
    cpdef Pair _named(self, str user, bytes topic, TopicShape shape)

    @cython.locals(pair=Pair, topics=UserTopics)
    cpdef Pair _pair(self, str user, str topic)
    cpdef TopicUse use(self, Pair pair)
