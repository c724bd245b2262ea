# Types of fetch_topics.py for the compiled build. The rules are in the .py file.

cimport cython

from wire cimport topic_runs
from wire.fetch_walk cimport FetchWalk
from wire.record_batches cimport BatchCounter, TopicCount, new_count
from wire.topic_counts cimport count_partitions, count_topics


cdef class FetchTopics(FetchWalk):
    cdef public list per_topic
    cdef public BatchCounter _batches

    cpdef resume(self, TopicCount count, long long left, long long field_bytes, long long batch_bytes)

    @cython.locals(counts=list, left=cython.longlong, known=cython.longlong)
    cpdef long long _run(self, bytearray buf, long long pos, long long end) except? -2
    cpdef _on_topic(self, bytes topic)

    @cython.locals(count=TopicCount)
    cpdef _on_partition(self, long long size)
    cpdef _read_records(self, bytearray buf, long long start, long long end)
