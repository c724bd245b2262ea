# Types of poller.py for the compiled build. The rules are in the .py file.

from proxy.shell cimport system_calls


cdef class EpollPoller:
    cdef public object _epoll, fileno, modify, register, unregister
    cdef public int fd
    cpdef poll(self, timeout, maxevents)
