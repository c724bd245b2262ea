# Types of newcomers.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.purgatory.timers cimport Timers
from proxy.core.purgatory.timing_wheel cimport TimerEntry


cdef class _Deadline(TimerEntry):
    cdef public object owner
    cdef public Newcomers _newcomers
    cdef public long long since_ms
    cdef public bint is_silent


cdef class Newcomers:
    cdef public object _counts
    cdef public dict _deadlines
    cdef public Timers _timers
    cdef public bint authenticates

    @cython.locals(deadline=_Deadline)
    cpdef on_request(self, owner, long long now_ms)

    @cython.locals(deadline=_Deadline)
    cpdef discard(self, owner)

    cpdef add(self, owner, long long now_ms)
    cpdef long long _timeout_ms(self, _Deadline deadline) except? -1
