# Types of exchange_queue.py for the compiled build. The rules are in the .py file.


cdef class ExchangeQueue:
    cdef public object entries
    cdef public long long diverted
