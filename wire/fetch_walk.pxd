# Types of fetch_walk.py for the compiled build. The rules are in the .py file.

cimport cython

from wire cimport produce_runs, topic_runs
from wire.incremental cimport try_size, try_string
from wire.topic_counts cimport TopicShape
from wire.varint cimport try_uvarint


cdef class FetchWalk:
    cdef public bytearray _carry
    cdef public bint _is_in_records, broken
    cdef public long long _aborted_left, _budget, _level, _partitions_left, _skip_bytes, _state, _tags_left, _topics_left
    cdef public long long tail_at
    cdef public TopicShape shape

    cpdef restart(self)
    cpdef feed(self, bytearray buf, long long start, long long end)

    @cython.locals(
        carry=bytearray, steps=cython.longlong, step=cython.longlong, kept=cython.longlong, whole=bytearray,
        after=cython.longlong,
    )
    cpdef _take(self, bytearray buf, long long start, long long end)

    @cython.locals(size=cython.longlong, after=cython.longlong)
    cpdef long long _run(self, bytearray buf, long long pos, long long end) except? -2
    cpdef _on_topic(self, bytes topic)
    cpdef _on_partition(self, long long size)
    cpdef _read_records(self, bytearray buf, long long start, long long end)
    cpdef long long _element(self, bytearray buf, long long pos, long long end) except? -2

    @cython.locals(shape=TopicShape, at=cython.longlong, count=cython.longlong, after=cython.longlong)
    cpdef long long _start(self, bytearray buf, long long pos, long long end) except? -2

    @cython.locals(shape=TopicShape, length=cython.longlong, count=cython.longlong, after=cython.longlong)
    cpdef long long _topic(self, bytearray buf, long long pos, long long end) except? -2

    @cython.locals(shape=TopicShape, aborted=cython.longlong, after=cython.longlong)
    cpdef long long _partition(self, bytearray buf, long long pos, long long end) except? -2

    @cython.locals(shape=TopicShape, size=cython.longlong, after=cython.longlong)
    cpdef long long _size(self, bytearray buf, long long pos, long long end) except? -2
    cpdef long long _counted(self, long long count) except? -2
    cpdef _fields_end(self, long long level)

    @cython.locals(level=cython.longlong)
    cpdef _struct_end(self)

    @cython.locals(count=cython.longlong, after=cython.longlong)
    cpdef long long _tag_count(self, bytearray buf, long long pos, long long end) except? -2

    @cython.locals(size=cython.longlong, after=cython.longlong)
    cpdef long long _tag(self, bytearray buf, long long pos, long long end) except? -2
