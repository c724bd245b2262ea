# Types of transport.py for the compiled build. The rules are in the .py file.


cdef class PlainTransport:
    cdef public object _socket, recv_into, send
