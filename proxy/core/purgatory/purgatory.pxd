# Types of purgatory.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.purgatory.timing_wheel cimport TimerEntry


cdef class Purgatory


cdef class DelayedOperation(TimerEntry):
    cdef public bint completed
    cdef public object keys
    cdef public Purgatory purgatory

    cpdef bint try_complete(self, long long now_ms) except -1
    cpdef bint force_complete(self, long long now_ms) except -1
    cpdef on_complete(self, long long now_ms)
    cpdef on_expiration(self, long long now_ms)


cdef class Purgatory:
    cdef public object _timers
    cdef public dict _watchers
    cdef public long long num_delayed

    @cython.locals(watchers=dict, watching=dict, complete=cython.bint)
    cpdef bint try_complete_else_watch(
        self, DelayedOperation operation, keys, long long at_ms, long long now_ms
    ) except -1

    @cython.locals(watchers=dict, watching=dict)
    cpdef forget(self, DelayedOperation operation)
