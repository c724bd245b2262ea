# Types of node_health.py for the compiled build. The rules are in the .py file.


cdef class NodeHealth:
    cdef object __weakref__
    cdef public object address
    cdef public long long heard_ms, owed, owed_since_ms


cdef class ByteCount:
    cdef public long long read_bytes


cdef class Nodes:
    cdef public dict _nodes, traffic
    cdef public long long _many

    cpdef NodeHealth health(self, node)
    cpdef NodeHealth _maybe(self, node)
