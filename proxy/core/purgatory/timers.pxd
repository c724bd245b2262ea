# Types of timers.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.purgatory.timing_wheel cimport TimerEntry, TimingWheel


cdef class Timer(TimerEntry):
    cdef public object call


cdef class Timers:
    cdef public long long _now_ms
    cdef public object _on_error
    cdef public list due
    cdef public TimingWheel _wheel

    @cython.locals(timer=Timer)
    cpdef arm(self, long long at_ms, call)
    @cython.locals(bucket=dict)
    cpdef add(self, TimerEntry entry)
    @cython.locals(bucket=dict)
    cpdef remove(self, TimerEntry entry)

    @cython.locals(due=list, wheel=TimingWheel, left=cython.longlong, entry=TimerEntry, come=list)
    cpdef advance(self, long long now_ms)

    @cython.locals(due=list)
    cpdef long long next_by(self, long long until_ms) except? -1

    @cython.locals(due=list)
    cpdef next_ms(self)
