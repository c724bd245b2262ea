# Types of topic_usage.py for the compiled build. The rules are in the .py file.

cimport cython

from wire cimport topic_runs
from wire.fetch_topics cimport FetchTopics
from wire.produce_topics cimport ProduceTopics
from wire.record_batches cimport TopicCount
from wire.topic_counts cimport TopicShape, count_reply, count_request


cdef class Pair
cdef class TopicUsage


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


cdef class TopicCounter:
    cdef public str _user
    cdef public bytes _topic
    cdef public list _found
    cdef public Pair _pair
    cdef public Flow _flow
    cdef public long long _batches, _partitions, _records, _second, _size_bytes, _topics_at, _version
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
