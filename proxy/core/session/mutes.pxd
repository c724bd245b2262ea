# Types of mutes.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session.channel cimport Channel
from proxy.core.session.throttled_channel cimport ThrottledChannel
from proxy.core.stats.usage cimport Usage


cdef class Mutes(ThrottledChannel):
    @cython.locals(client=Channel, usage=Usage, held=cython.longlong, muted=cython.longlong)
    cpdef unmute(self, long long reason)
    cpdef look_again(self)
