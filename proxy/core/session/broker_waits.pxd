# Types of broker_waits.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session cimport crowding
from proxy.core.session.exchange cimport Exchange
from proxy.core.session.link cimport Link

@cython.locals(wait_ms=cython.longlong)
cpdef watch(Link link, long long now_ms)

@cython.locals(now_ms=cython.longlong)
cpdef watch_unsent(Link link)
cpdef on_late_reply(Link link)
cpdef on_answer(Link link, Exchange exchange)
cpdef release(Link link)
cdef _arm_at(Link link, long long at_ms)
cpdef _on_due(Link link, long long now_ms)
