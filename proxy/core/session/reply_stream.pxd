# Types of reply_stream.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session cimport paths
from proxy.core.session.exchange cimport Exchange, ObservedExchange
from proxy.core.session.exchange_queue cimport ExchangeQueue
from proxy.core.session.link cimport Link
from proxy.core.session.plan cimport Plan
from proxy.core.stats.meters cimport Meter


cpdef begin(Link link, long long size, long long here_bytes)

@cython.locals(taken=cython.longlong)
cpdef long long pass_on(Link link, long long size_bytes, long long now_ms) except? -1

@cython.locals(queue=ExchangeQueue, buckets=bytes, exchange=Exchange, plan=Plan, took_us=cython.longlong)
cpdef finish(Link link, long long now_ms)
cdef _complete(Link link, Exchange exchange, long long now_ms)


cdef class ReplyStream:
    cdef public object _kept, _walker
    cdef public Link _link
    cdef public bint _dropped


@cython.locals(plan=Plan, tally=Meter, took_us=cython.longlong)
cpdef count_reply(shared, Exchange exchange, long long size_bytes)
