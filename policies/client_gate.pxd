# Types of client_gate.py for the compiled build. The rules are in the .py file.


cdef class ClientGate:
    cpdef bint passes(self, long long size_bytes, long long now_ms) except -1


cdef class CalledGate(ClientGate):
    cdef public object _call

    cpdef bint passes(self, long long size_bytes, long long now_ms) except -1
