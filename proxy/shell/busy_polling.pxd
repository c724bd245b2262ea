# Types of busy_polling.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.purgatory.timers cimport Timers
from proxy.core.session.step_time cimport StepTime
from proxy.core.stats.usage cimport UsageBook
from proxy.core.turns cimport Turns
from proxy.shell cimport loop_limits
from proxy.shell.clock cimport Clock
from proxy.shell.steppable cimport Steppable


cdef class BusyPolling:
    cdef public bint _calls
    cdef public Clock _clock
    cdef public StepTime _engine
    cdef public Steppable _event_loop
    cdef public Timers _timers
    cdef public Turns _turns
    cdef public UsageBook _usage
    cdef public list _due
    cdef public object _scheduler
    cdef public double _left_ms, _pass_ms
    cdef public long long _busy, _idle_ms
    cdef public set _ready

    cpdef bint lasts(self)
    cpdef bint must_pass(self, long long now_ms) except -1

    @cython.locals(now_ms=cython.longlong)
    cpdef long long turns(self) except? -1

    @cython.locals(
        now_ms=cython.longlong, leave_ms=cython.double, until_ms=cython.double, timeout_ms=cython.double,
        due_ms=cython.longlong, handled=cython.longlong, called=cython.longlong, may_block=cython.bint,
        ready=set, engine=StepTime, event_loop=Steppable, clock=Clock, usage=UsageBook,
    )
    cpdef long long turn(self) except? -1
