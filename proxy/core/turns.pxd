# Types of turns.py for the compiled build. The rules are in the .py file.

cimport cython


cdef class ScheduledSession:
    cdef public bint uses_outboxes, ready
    cdef public object handle
    cdef public double turn_us


cdef class Turns:
    cdef public long long _added, in_place_bytes, in_place_us, labour_bytes
    cdef public ScheduledSession _current
    cdef public list queue
    cdef public double share_us

    cpdef add(self, ScheduledSession session)

    @cython.locals(session=ScheduledSession)
    cpdef take(self)
    cpdef end(self, ScheduledSession session, double spent_us)

    @cython.locals(least_us=cython.double)
    cpdef _push(self, ScheduledSession session)
