# Types of side_ending.py for the compiled build. The rules are in the .py file.

from proxy.core.session.step_time cimport StepTime
from proxy.shell.endpoint cimport Endpoint


cdef class SideEnding:
    cdef public object brokers, poller
    cdef public StepTime _engine
    cdef public list _closed
    cdef public dict _ends

    cpdef _settle(self, Endpoint end)
    cpdef _settle_rest(self, Endpoint end)
    cpdef _close(self, Endpoint end, long long now_ms)
