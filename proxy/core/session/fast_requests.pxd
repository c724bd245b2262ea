# Types of fast_requests.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session cimport frame_heads, mutes, paths, request_stream, sampling
from proxy.core.session.exchange cimport Exchange, ObservedExchange, new_observed
from proxy.core.session.kept_produce cimport keep
from proxy.core.session.link cimport Link
from proxy.core.session.plan cimport Plan
from proxy.core.session.plan_book cimport PlanBook
from proxy.core.stats.usage cimport Usage
from wire cimport produce_runs


@cython.locals(
    plans=PlanBook, usage=Usage, now_us=cython.longlong, last=cython.longlong, size=cython.longlong,
    kind=cython.longlong, counted=cython.longlong, correlation_id=cython.longlong, stop=cython.longlong,
    path=cython.longlong, plan=Plan, exchange=Exchange, steps=cython.longlong,
)
cpdef pass_usual(Link link, bytearray buf, long long pos, long long end, long long now_ms)

@cython.locals(size=cython.longlong, kind=cython.longlong, correlation_id=cython.longlong, plan=Plan)
cpdef pass_new_or_cut(Link link, bytearray buf, long long pos, long long end, long long now_ms)

cdef bint _may_meet(Link link) except -1

@cython.locals(here=cython.longlong, passes=cython.bint, number=cython.longlong, exchange=ObservedExchange)
cdef _stream_usual(
    Link link, Plan plan, long long size, long long correlation_id, bytearray buf, long long pos, long long end,
    long long now_ms
)
cdef bint _may_stream(Link link, long long whole, long long here_bytes) except -1

cdef _kept(Link link, Plan plan, bytearray buf, long long pos, long long stop)

cdef bint _opens(
    Link link, Plan plan, long long correlation_id, long long size, long long now_ms
) except -1

@cython.locals(
    size=cython.longlong, number=cython.longlong, path=cython.longlong, exchange=ObservedExchange, passes=cython.bint
)
cdef bint _try_ask(
    Link link, Plan plan, long long correlation_id, bytearray buf, long long pos, long long stop,
    long long end, kept, long long now_ms
) except -1

cdef bint _lets_pass(
    Link link, ObservedExchange exchange, verdict, long long left_bytes, long long now_ms
) except -1

cdef bint _shows(
    Link link, ObservedExchange exchange, bytearray buf, long long pos, long long stop
) except -1

cdef bint _may_read(Link link, long long size) except -1
