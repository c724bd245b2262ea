# Types of broker_waits.py for the compiled build. The rules are in the .py file.


cdef class BrokerWaits:
    cdef public object _owner, _timer
    cdef public long long _taken_bytes, _taken_ms, at_ms
    cdef public bint patient
