# Types of policy_calls.py for the compiled build. The rules are in the .py file.

from proxy.core.session.exchange cimport Exchange, ObservedExchange


cdef class PolicyCalls:
    cdef public object _shared

    cpdef ask(self, ObservedExchange exchange, long long now_ms)
    cpdef complete_replied(self, Exchange exchange, long long now_ms)
