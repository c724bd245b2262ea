# Types of channel.py for the compiled build. The rules are in the .py file.


cdef class Channel:
    cdef public bytes carry
    cdef public long long head_at, muted, sent_bytes, unsent_bytes
    cdef public list outbox
    cdef public object pool, read_pool, room, watcher

    cpdef mute(self, long long reason)
    cpdef unmute(self, long long reason)
    cpdef put(self, data, long long counted_bytes=*)
    cpdef put_slice(self, buf, long long start, long long stop)
    cpdef front(self, long long max_bytes)
    cpdef sent(self, long long size_bytes)
    cpdef keep(self, bytes data)
    cpdef bytes take(self)
    cpdef clear(self)
    cpdef _empty(self, long long held_bytes)
