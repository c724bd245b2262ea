# Types of clock.py for the compiled build. The rules are in the .py file.


cdef class Clock:
    cdef public long long _offset_ns
    cpdef long long now_us(self) except? -1
