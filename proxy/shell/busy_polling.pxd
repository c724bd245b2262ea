# Types of busy_polling.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session.step_time cimport StepTime


cdef class BusyPolling:
    cdef public bint _calls
    cdef public StepTime _engine
    cdef public object _due, _event_loop, _now_us, _scheduler, _step
    cdef public double _left_ms, _pass_ms, _idle_ms
    cdef public long long _busy
    cdef public set _ready

    @cython.locals(
        now_ms=cython.longlong, leave_ms=cython.double, until_ms=cython.double, timeout_ms=cython.double,
        due_ms=object, handled=cython.longlong, called=cython.longlong, may_block=cython.bint,
        ready=set, engine=StepTime,
    )
    cpdef long long turn(self) except? -1
