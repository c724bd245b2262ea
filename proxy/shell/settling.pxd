# Types of settling.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session.channel cimport Channel
from proxy.core.session.session cimport Session
from proxy.shell cimport masks, side_ending
from proxy.shell.endpoint cimport Endpoint, Endpoints, has_pending


@cython.locals(session=Session, each=Endpoint, client=Endpoint, broker=Endpoint)
cpdef settle(Endpoints endpoints, Endpoint end)
cpdef settle_rest(Endpoints endpoints, Endpoint end)

@cython.locals(session=Session, source=Endpoint)
cpdef wait_for_room(Endpoints endpoints, Endpoint end)
cpdef on_eof(Endpoints endpoints, Endpoint end, long long now_ms)
cpdef on_broken(Endpoints endpoints, Endpoint end, long long now_ms, error=*)
cpdef on_fault(Endpoints endpoints, Endpoint end, error, long long now_ms)

@cython.locals(channel=Channel)
cdef _send_outbox(Endpoints endpoints, Endpoint end)

@cython.locals(to_client=Channel, to_broker=Channel)
cdef _set_backpressure(Endpoint client, Endpoint broker)

@cython.locals(channel=Channel, want=cython.longlong, before=cython.longlong, is_slow=cython.bint)
cdef _update_interest(Endpoints endpoints, Endpoint end)
