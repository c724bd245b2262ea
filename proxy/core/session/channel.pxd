# Types of channel.py for the compiled build. The rules are in the .py file.


cdef class Channel:
    cdef public bytes carry
    cdef public long long head_at, muted, sent_bytes, unsent_bytes
    cdef public list outbox
    cdef public object pool, read_pool, room, watcher
