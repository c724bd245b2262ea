# Types of reply_walk.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session.link cimport Link
from proxy.core.session.plan cimport Plan
from wire.fetch_walk cimport FetchWalk


@cython.locals(walk=FetchWalk)
cpdef begin_walk(Link link, Plan plan)

@cython.locals(walk=FetchWalk, passes=cython.longlong)
cpdef long long read_along(
    Link link, bytearray buf, long long start, long long taken, long long left_bytes
) except? -1
