# Types of reply_stream.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session.exchange cimport Exchange
from proxy.core.session.link cimport Link
from proxy.core.session.plan cimport Plan
from proxy.core.stats.meters cimport Meter


cdef class ReplyStream:
    cdef public object _kept, _walker
    cdef public Link _link
    cdef public bint _dropped
    cdef public long long _size


@cython.locals(plan=Plan, tally=Meter, took_us=cython.longlong)
cpdef count_reply(shared, Exchange exchange, long long size_bytes)
