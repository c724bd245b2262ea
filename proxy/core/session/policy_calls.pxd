# Types of policy_calls.py for the compiled build. The rules are in the .py file.

cdef class PolicyCalls:
    cdef public object _shared
