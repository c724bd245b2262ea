# Types of plan_book.py for the compiled build. The rules are in the .py file.


cdef class PlanBook:
    cdef public object _speaker
    cdef public dict by_kind
    cdef public bint keeps
    cdef public long long shortest_wait_ms
