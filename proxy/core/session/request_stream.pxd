# Types of request_stream.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session cimport crowding, mutes, sampling
from proxy.core.session.body_walk cimport on_fed, on_produced, walker_for
from proxy.core.session.channel cimport Channel
from proxy.core.session.exchange cimport ObservedExchange
from proxy.core.session.exchange_queue cimport ExchangeQueue
from proxy.core.session.kept_produce cimport leave_to_broker, on_sent, on_streamed
from proxy.core.session.link cimport Link
from proxy.core.session.plan cimport Plan
from proxy.core.session.traces cimport on_received
from proxy.core.stats.usage cimport Usage
from wire.produce cimport ProduceWalker


@cython.locals(whole=cython.longlong, body_at=cython.longlong)
cpdef long long stream(
    Link link, ObservedExchange exchange, throttle, bytearray buf, long long pos, long long end, long long now_ms
) except? -2

@cython.locals(taken=cython.longlong)
cpdef long long pass_on(Link link, bytearray buf, long long start, long long end, long long now_ms) except? -2

@cython.locals(queue=ExchangeQueue)
cpdef lose_half_sent(Link link, long long now_ms)
cpdef forget(Link link, long long now_ms)
cpdef drop_kept(Link link)
cpdef complete_judged(Link link, long long now_ms)

@cython.locals(
    start=cython.longlong, pos=cython.longlong, max_labour_bytes=cython.longlong, labour_bytes=cython.longlong,
    taken=cython.longlong, cost_bytes=cython.longlong, is_whole=cython.bint, is_late=cython.bint,
)
cpdef long long take(Link link, bytearray buf, settled, long long end, long long now_ms) except? -2
cdef _go_on(Link link, long long now_ms)
cdef _on_boundary(Link link, bytearray buf, settled)
cdef _on_read_over(Link link, bytearray buf, settled, long long now_ms)
cdef bint _holds_next(Link link) except -1
cdef bint _must_wait(Link link, long long labour_bytes, long long max_labour_bytes, long long here_bytes) except -1

@cython.locals(taken=cython.longlong, mode=cython.longlong, walker=ProduceWalker, steps=cython.longlong)
cdef _take_body(Link link, bytearray buf, settled, long long pos, long long end, long long now_ms)

@cython.locals(passing=ObservedExchange)
cdef _on_through(Link link)
cdef _keep_head(Link link, long long here_bytes, long long now_ms)

@cython.locals(usage=Usage, plan=Plan)
cdef _on_arrived(Link link, ObservedExchange exchange)

@cython.locals(size=cython.longlong, stop=cython.longlong, limit=cython.longlong, plan=Plan, exchange=ObservedExchange)
cdef _begin(Link link, bytearray buf, long long pos, long long end, long long now_ms)

@cython.locals(exchange=ObservedExchange)
cdef _begin_judged(Link link, bytearray buf, judged, long long pos, long long end, long long now_ms)
cdef _take_up(Link link, ObservedExchange exchange)

@cython.locals(whole=cython.longlong)
cdef _apply(
    Link link, ObservedExchange exchange, verdict, long long pos, long long body_at, long long end, long long now_ms
)

@cython.locals(plan=Plan)
cdef long long _begin_stream(
    Link link, ObservedExchange exchange, long long whole, long long pos, long long body_at, long long now_ms
) except? -2
cdef _on_granted(Link link, ObservedExchange exchange)

@cython.locals(stop=cython.longlong, passing=ObservedExchange)
cdef long long _walk(
    Link link, ProduceWalker walker, bytearray buf, long long pos, long long size_bytes, long long now_ms
) except? -2

@cython.locals(passing=ObservedExchange)
cdef _on_walked(Link link, ProduceWalker walker, long long now_ms)

@cython.locals(exchange=ObservedExchange, whole=cython.longlong)
cdef _keep_whole(Link link, pending, long long pos, long long end)
cdef _gather(Link link, bytearray buf, long long start, long long stop)
cdef _settle_whole(Link link, long long now_ms)
