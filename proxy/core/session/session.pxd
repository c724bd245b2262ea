# Types of session.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session cimport frame_heads
from proxy.core.session.exchange cimport Exchange, ObservedExchange
from proxy.core.session.exchange_queue cimport ExchangeQueue
from proxy.core.session.mutes cimport Mutes
from proxy.core.session.parts cimport SessionParts
from proxy.core.session.plan cimport Plan
from proxy.core.stats.meters cimport Meter
from proxy.core.stats.usage cimport Usage
from wire.one_partition_reply cimport OnePartitionReply


cdef class Session(SessionParts):
    cdef public object on_released, route
    cdef public long long opened_ms

    @cython.locals(
        pos=cython.longlong, begun=cython.longlong, count=cython.longlong, now_us=cython.longlong,
        keep_steps=cython.longlong, size=cython.longlong, correlation_id=cython.longlong, last=cython.longlong,
        kind=cython.longlong, stop=cython.longlong, unusual=cython.bint, plan=Plan, gated=Plan,
        plans=dict, exchange=Exchange, asked=ObservedExchange,
        observed_exchange=ObservedExchange, usage=Usage, mutes=Mutes, in_c=cython.bint,
    )
    cpdef long long from_client(
        self, bytearray buf, long long start, long long end, long long now_ms
    ) except? -2

    @cython.locals(
        pos=cython.longlong, begun=cython.longlong, now_us=cython.longlong, size=cython.longlong,
        correlation_id=cython.longlong, stop=cython.longlong, took_us=cython.longlong, last=cython.longlong, plan=Plan,
        tally=Meter, exchange=Exchange, queue=ExchangeQueue, glance=OnePartitionReply,
        buckets=bytes, usage=Usage,
    )
    cpdef long long from_broker(
        self, bytearray buf, long long start, long long end, long long now_ms
    ) except? -2

    @cython.locals(plan=Plan, size=cython.longlong)
    cpdef bint _passes(
        self, Exchange exchange, bytearray buf, long long pos, long long stop, long long now_ms
    ) except -1
