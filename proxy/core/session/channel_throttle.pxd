# Types of channel_throttle.py for the compiled build. The rules are in the .py file.

from proxy.core.purgatory.timing_wheel cimport TimerEntry


cdef class ChannelThrottle(TimerEntry):
    cdef public object by, on_due, trace
    cdef public bint is_deferred, is_timed
    cdef public long long until_ms

    cpdef bint lasts(self, long long now_ms) except -1
    cpdef fire(self, long long now_ms)
