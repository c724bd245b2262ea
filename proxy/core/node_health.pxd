# Types of node_health.py for the compiled build. The rules are in the .py file.


cdef class NodeHealth:
    cdef object __weakref__
    cdef public object address
    cdef public long long heard_ms, owed, owed_since_ms


cdef class ByteCount:
    cdef public long long read_bytes
