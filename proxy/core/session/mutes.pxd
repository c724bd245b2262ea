# Types of mutes.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session.channel cimport Channel
from proxy.core.session.exchange cimport ObservedExchange
from proxy.core.session.link cimport Link
from proxy.core.session.plan cimport Plan
from proxy.core.session.channel_throttle cimport ChannelThrottle
from proxy.core.stats.usage cimport Usage

cpdef mute_now(Link link, long long reason)
cpdef mute_after_request(Link link, long long reason)
cpdef on_request_boundary(Link link)

@cython.locals(client=Channel, held=cython.longlong, muted=cython.longlong, is_kept_off=cython.bint)
cpdef unmute(Link link, long long reason)
cpdef look_again(Link link)
cpdef count_muted_time(Link link, long long held, long long by)
cpdef _hold(Link link, long long reason)

@cython.locals(until_ms=cython.longlong)
cpdef throttle_request(
    Link link, ObservedExchange exchange, long long throttle_time_ms, long long now_ms, why=*
)

@cython.locals(known=ChannelThrottle, since_ms=cython.longlong)
cpdef throttle(Link link, ObservedExchange exchange, long long until_ms, long long now_ms, why=*)

cpdef count_delay(Usage usage, ObservedExchange exchange, long long delay_ms)

@cython.locals(known=ChannelThrottle, until_ms=cython.longlong, plan=Plan)
cpdef bint try_defer(
    Link link, ObservedExchange exchange, long long throttle_time_ms, long long now_ms, why
) except -1

@cython.locals(known=ChannelThrottle, until_ms=cython.longlong)
cpdef begin_deferred(Link link, long long now_ms)

@cython.locals(known=ChannelThrottle)
cpdef _on_due(Link link, long long now_ms)

@cython.locals(known=ChannelThrottle)
cdef ChannelThrottle _throttle_of(Link link)
cdef _add(Link link, ChannelThrottle known, long long at_ms)
cdef _end(Link link, ChannelThrottle known)
cpdef _tell_unmuted(Link link, ChannelThrottle known)
