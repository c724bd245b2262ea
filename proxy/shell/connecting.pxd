# Types of connecting.py for the compiled build. The rules are in the .py file.

from proxy.core.purgatory.timing_wheel cimport TimerEntry
from proxy.shell.endpoint cimport Endpoints


cdef class Connecting(TimerEntry):
    cdef public object _address, _done, _socket
    cdef public Endpoints _endpoints
