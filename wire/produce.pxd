# Types of produce.py for the compiled build. The rules are in the .py file.

cimport cython

from wire cimport produce_runs
from wire.incremental cimport try_size, try_string
from wire.record_batches cimport BatchCounter
from wire.varint cimport try_uvarint


cdef class ProduceWalker:
    cdef public object acks, timeout_ms
    cdef public BatchCounter _counter
    cdef public bytearray _carry, packed
    cdef public bint _by_id, _flexible, _transactional
    cdef public long long _budget, _last_tag, _level, _partitions_left, _skip_bytes, _state, _tags_left
    cdef public long long _topics_left, steps

    cpdef _begin(self, long long version, long long budget)
    cpdef _topic_in(self, bytearray packed, long long pos)

    @cython.locals(
        data=bytearray, limit=cython.longlong, carry=bytearray, lend_bytes=cython.longlong, step=cython.longlong,
        kept=cython.longlong, lent=cython.longlong, whole=bytearray, used=cython.longlong, after=cython.longlong, counter=BatchCounter,
    )
    cpdef long long feed(self, buf, long long start, long long end, long long max_steps=*) except? -2

    @cython.locals(steps=cython.longlong, most=cython.longlong, left=cython.longlong)
    cpdef long long _take_partitions(self, bytearray buf, long long pos, long long end, long long limit) except? -2
    cpdef long long _element(self, bytearray buf, long long pos, long long end) except? -2

    @cython.locals(length=cython.longlong, count=cython.longlong, after=cython.longlong)
    cpdef long long _head(self, bytearray buf, long long pos, long long end) except? -2

    @cython.locals(length=cython.longlong, count=cython.longlong, after=cython.longlong)
    cpdef long long _topic(self, bytearray buf, long long pos, long long end) except? -2

    @cython.locals(size_bytes=cython.longlong, after=cython.longlong)
    cpdef long long _partition(self, bytearray buf, long long pos, long long end) except? -2
    cpdef long long _counted(self, long long count) except? -2
    cpdef _fields_end(self, long long level)
    cpdef _struct_end(self)

    @cython.locals(count=cython.longlong, after=cython.longlong)
    cpdef long long _tag_count(self, bytearray buf, long long pos, long long end) except? -2

    @cython.locals(tag=cython.longlong, size_bytes=cython.longlong, after=cython.longlong)
    cpdef long long _tag(self, bytearray buf, long long pos, long long end) except? -2
