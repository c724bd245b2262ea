# Types of step_time.py for the compiled build. The rules are in the .py file.

from proxy.core.purgatory.timers cimport Timers
from proxy.core.turns cimport Turns


cdef class StepTime:
    cdef public long long now_ms, now_us
    cdef public Timers timers
    cdef public Turns turns
