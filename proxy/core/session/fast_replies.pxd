# Types of fast_replies.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session cimport frame_heads, paths, reply_stream
from proxy.core.session.exchange cimport Exchange, ObservedExchange
from proxy.core.session.link cimport Link
from proxy.core.session.plan cimport Plan
from proxy.core.stats.meters cimport Meter
from proxy.core.stats.usage cimport Usage
from wire.untagged_reply cimport UntaggedReply


@cython.locals(
    usage=Usage, buckets=bytes, now_us=cython.longlong, last=cython.longlong, size=cython.longlong,
    correlation_id=cython.longlong, stop=cython.longlong, took_us=cython.longlong, path=cython.longlong, exchange=Exchange,
    plan=Plan, tally=Meter,
)
cpdef pass_usual(Link link, bytearray buf, long long pos, long long end, long long now_ms)

@cython.locals(size=cython.longlong, correlation_id=cython.longlong, exchange=Exchange, plan=Plan)
cpdef stream_usual(Link link, bytearray buf, long long pos, long long end)

@cython.locals(plan=Plan, size=cython.longlong, shape=UntaggedReply)
cdef bint _is_heard(
    Link link, Exchange exchange, bytearray buf, long long pos, long long stop, long long now_ms
) except -1
