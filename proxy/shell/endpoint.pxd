# Types of endpoint.py for the compiled build. The rules are in the .py file.

from proxy.core.session.channel cimport Channel


cdef class Endpoint:
    cdef public Channel channel
    cdef public bint closed, hung_up, lingering
    cdef public long long expect
    cdef public object fd, forward, pending, recv_into, send, session, take, timer, transport
    cdef public Endpoint other
    cdef public list traffic
