# Types of throttled_channel.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.purgatory.timers cimport Timers
from proxy.core.purgatory.timing_wheel cimport TimerEntry
from proxy.core.session.channel cimport Channel
from proxy.core.session.exchange cimport ObservedExchange
from proxy.core.session.plan cimport Plan
from proxy.core.session.step_time cimport StepTime
from proxy.core.stats.usage cimport Usage
from proxy.core.turns cimport ScheduledSession, Turns


cdef class ThrottledChannel(TimerEntry):
    cdef public Channel _client
    cdef public ScheduledSession _owner
    cdef public object _throttle_trace, throttled_by
    cdef public StepTime _shared
    cdef public Timers _timers
    cdef public Turns _turns
    cdef public bint is_deferred, is_throttled, unusual
    cdef public long long throttled_until_ms, wanted

    cpdef unmute(self, long long reason)
    cpdef look_again(self)

    @cython.locals(until_ms=cython.longlong)
    cpdef throttle_request(
        self, ObservedExchange exchange, long long throttle_time_ms, long long now_ms, why=*
    )

    @cython.locals(
        known_ms=cython.longlong, since_ms=cython.longlong, more_ms=cython.longlong,
        client=Channel, usage=Usage,
    )
    cpdef throttle(self, ObservedExchange exchange, long long until_ms, long long now_ms, why=*)

    @cython.locals(until_ms=cython.longlong, plan=Plan, usage=Usage)
    cpdef bint try_defer(
        self, ObservedExchange exchange, long long throttle_time_ms, long long now_ms, why
    ) except -1

    @cython.locals(until_ms=cython.longlong, usage=Usage, client=Channel)
    cpdef begin_deferred(self, long long now_ms)
    cpdef bint lasts(self, long long now_ms) except -1
    cpdef _add(self, long long at_ms)
    cpdef _end(self)
    cpdef _tell_unmuted(self)
