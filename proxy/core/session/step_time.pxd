# Types of step_time.py for the compiled build. The rules are in the .py file.


cdef class StepTime:
    cdef public long long now_ms, now_us
