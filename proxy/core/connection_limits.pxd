# Types of connection_limits.py for the compiled build. The rules are in the .py file.


cdef class ConnectionCounts:
    cdef public object limits
    cdef public dict _by_address, _by_user, _rated
    cdef public object _full_ns
    cdef public long long handshaking
