# Types of throttle.py for the compiled build. The rules are in the .py file.

cpdef long long _raise(buf, long long pos, long long throttle_time_ms) except? -1
