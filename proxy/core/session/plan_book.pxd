# Types of plan_book.py for the compiled build. The rules are in the .py file.

from proxy.core.session.plan cimport Plan


cdef class PlanBook:
    cdef public object _speaker
    cdef public dict by_kind
    cdef public bint _has_greeted, keeps_partitions
    cdef public long long _handshake_ms, shortest_wait_ms, last_kind
    cdef public Plan last_plan
