# Types of steppable.py for the compiled build. The rules are in the .py file.


cdef class Steppable:
    cdef public long long arriving, called

    cpdef long long step(self, double timeout_s) except? -1
