# Types of reply_stream.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session cimport paths
from proxy.core.session.exchange cimport Exchange, ObservedExchange
from proxy.core.session.exchange_queue cimport ExchangeQueue
from proxy.core.session.link cimport Link
from proxy.core.session.plan cimport Plan
from proxy.core.session.reply_walk cimport begin_walk, read_along
from proxy.core.stats.topic_counter cimport TopicCounter


cpdef long long begin(Link link, Plan plan, long long size, bytearray buf, long long pos, long long end) except? -1

@cython.locals(taken=cython.longlong, topics=TopicCounter)
cpdef long long pass_on(Link link, bytearray buf, long long start, long long end, long long now_ms) except? -1

@cython.locals(queue=ExchangeQueue, buckets=bytes, exchange=Exchange, plan=Plan, took_us=cython.longlong)
cpdef finish(Link link, long long now_ms)
cdef _complete(Link link, Exchange exchange, long long now_ms)


cdef class ReplyStream:
    cdef public object _hearing, _kept, _walker
    cdef public bytearray _heard
    cdef public Link _link
    cdef public bint _dropped, _keeps_tail


@cython.locals(plan=Plan, took_us=cython.longlong)
cpdef count_reply(shared, Exchange exchange, long long size_bytes)
