# Types of local_replies.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session.exchange cimport ObservedExchange
from proxy.core.session.link cimport Link
from proxy.core.session.plan cimport Plan


@cython.locals(plan=Plan)
cpdef on_reply(
    Link link, ObservedExchange exchange, long long size, bytearray buf, long long pos, long long end,
    long long now_ms,
)

@cython.locals(
    plan=Plan, until_ms=cython.longlong, known_ms=cython.longlong, own_ms=cython.longlong,
    said_ms=cython.longlong,
)
cdef _stamp(
    Link link, ObservedExchange exchange, verdict, bytearray buf, long long pos, long long end,
    long long now_ms,
)
