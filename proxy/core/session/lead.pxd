# Types of lead.py for the compiled build. The rules are in the .py file.

cimport cython

cdef class Lead:
    cdef public object _advertise, _api, _find, _topology
    cdef public long long _body_offset, _kept_offset, _revision
    cdef public bytes _new, _old

    @cython.locals(
        at=cython.longlong, after=cython.longlong, moved=cython.longlong, new=bytes,
    )
    cpdef long long in_place(self, bytearray buf, long long pos, long long end) except? -9
