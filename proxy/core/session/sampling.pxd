# Types of sampling.py for the compiled build. The rules are in the .py file.

from proxy.core.session.exchange cimport ObservedExchange
from proxy.core.session.link cimport Link


cpdef on_arrived(Link link, ObservedExchange exchange)
cpdef sample_newest(Link link)
cdef _sample(Link link, ObservedExchange exchange)
