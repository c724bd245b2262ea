# Types of turns.py for the compiled build. The rules are in the .py file.

cimport cython


cdef class Turns:
    cdef public long long _added, in_place_bytes, in_place_us, labour_bytes
    cdef public object _current
    cdef public list queue
    cdef public double share_us

    cpdef add(self, session)
    cpdef take(self)
    cpdef end(self, session, spent_us)

    @cython.locals(least_us=cython.double)
    cpdef _push(self, session)
