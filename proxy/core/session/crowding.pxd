# Types of crowding.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session cimport mutes
from proxy.core.session.exchange cimport Exchange
from proxy.core.session.link cimport Link


@cython.locals(more=cython.longlong)
cpdef on_requests(Link link)

@cython.locals(left=cython.longlong, gone=cython.longlong, is_muted=cython.longlong, is_due=cython.bint)
cpdef on_replies(Link link, counted)
cpdef on_kept(Link link, Exchange exchange)
cpdef recount(Link link)
cpdef forget(Link link)
cdef _newest_bytes(Link link, long long more)
cdef bint _may_be_read(Link link, counted) except -1
