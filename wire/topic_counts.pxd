# Types of topic_counts.py for the compiled build. The rules are in the .py file.

cimport cython

from wire cimport produce_runs, topic_runs
from wire.record_batches cimport TopicCount, new_count


cdef class TopicShape:
    cdef public bint by_id, compact, has_aborted
    cdef public long long fixed_bytes, replica_bytes, start_bytes


@cython.locals(left=cython.longlong)
cpdef list count_request(TopicShape shape, bytearray buf, long long pos, long long end, long long most)

@cython.locals(pos=cython.longlong, left=cython.longlong)
cpdef list count_reply(TopicShape shape, bytearray buf, long long start, long long end, long long most)

@cython.locals(
    length=cython.longlong, at=cython.longlong, partitions=cython.longlong, stop=cython.longlong,
    cut=cython.longlong, count=TopicCount,
)
cpdef (long long, long long, long long) count_topics(
    TopicShape shape, bytearray buf, long long pos, long long end, long long left, long long most, list found
) except *

@cython.locals(
    stop=cython.longlong, cut=cython.longlong, size_bytes=cython.longlong, batches=cython.longlong,
    records=cython.longlong,
)
cpdef (long long, long long) count_partitions(
    TopicShape shape, TopicCount count, bytearray buf, long long pos, long long end, long long left
) except *

cdef long long _width(TopicShape shape, long long width) except -1
