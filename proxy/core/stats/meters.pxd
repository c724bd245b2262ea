# Types of meters.py for the compiled build. The rules are in the .py file.


cdef class Meter:
    cdef public object api_key, client_id, name, node, user
    cdef public dict outcomes, parked, waits
    cdef public list upstream
    cdef public long long request_bytes, response_bytes
