# Types of stay.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session.step_time cimport StepTime


cdef class Stay:
    cdef public bint _calls
    cdef public StepTime _engine
    cdef public object _due, _event_loop, _now_us, _scheduler, _step
    cdef public double _left_ms, _pass_ms, _quiet_ms
    cdef public long long _busy
    cdef public set _ready

    @cython.locals(
        now_ms=cython.longlong, leave_ms=cython.double, until_ms=cython.double, stay_ms=cython.double,
        due_ms=object, handled=cython.longlong, called=cython.longlong, may_stay=cython.bint,
        ready=set, engine=StepTime,
    )
    cpdef long long turn(self) except? -1
