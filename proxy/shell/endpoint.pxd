# Types of endpoint.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.node_health cimport ByteCount
from proxy.core.session.channel cimport Channel
from proxy.core.session.session cimport Session
from proxy.core.session.step_time cimport StepTime
from proxy.shell cimport masks, system_calls


cdef class Endpoint:
    # Those of the fast path come first, as in `link.pxd`.
    cdef public long long expect, read_bytes
    cdef public int direct
    cdef public bint is_client
    cdef public Channel channel
    cdef public Endpoint other
    cdef public Session session
    cdef public ByteCount traffic

    cdef public bint closed, finished, hung_up, lingering
    cdef public int fd
    cdef public object forward, pending, recv_into, send, timer, transport

    cpdef use(self, transport)


cdef class Endpoints:
    cdef public object brokers, poller
    cdef public StepTime engine
    cdef public list by_fd, closed
    cdef public dict watched
    cdef public long long interest_changes, open_sockets, refused_sends, slow_events


@cython.locals(by_fd=list)
cpdef add(Endpoints endpoints, Endpoint end)
cpdef register_connected(Endpoints endpoints, int fd)
cpdef remove(Endpoints endpoints, Endpoint end)

@cython.locals(by_fd=list)
cpdef Endpoint find(Endpoints endpoints, long long fd)
cpdef bint has_pending(Endpoint end) except? -1
