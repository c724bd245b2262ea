# Types of exchange.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session.plan cimport Plan


@cython.freelist(32)
cdef class Exchange:
    cdef public long long arrived_us, correlation_id, size_bytes
    cdef public object kept
    cdef public Plan plan


cdef class ObservedExchange(Exchange):
    cdef public long long arrived_ms, asked_up_to, began_us, delay_ms, exchange_id, throttle_until_ms
    cdef public object body, decoded, head, held, result, seen, trace


@cython.locals(exchange=ObservedExchange)
cpdef ObservedExchange new_observed(
    kind, Plan plan, long long correlation_id, long long size_bytes, long long arrived_us, long long arrived_ms,
    long long exchange_id
)
