# Types of event_loop.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.memory.pool cimport MemoryPool
from proxy.core.session.channel cimport Channel
from proxy.core.session.step_time cimport StepTime
from proxy.core.turns cimport Turns
from proxy.shell cimport settling, side_ending, system_calls
from proxy.shell.endpoint cimport Endpoint, Endpoints, has_pending


cdef class EventLoop:
    cdef public Endpoints endpoints
    cdef public StepTime _engine
    cdef public object _area, _clock, _due, _now_us, _small_area, _tail, _view, asleep
    cdef public tuple _areas, _pools
    cdef public bint _behind, _checks_backlog
    cdef public long long _fired_ms, _steps, _then_us, _unfired, arriving, called
    cdef public bytearray _scratch
    cdef public list _others

    @cython.locals(
        now_us=cython.longlong, now_ms=cython.longlong, at=cython.longlong, fast=cython.longlong,
        left=cython.longlong, budget=cython.longlong, event=cython.longlong, stop=cython.longlong,
        received=cython.longlong, sent=cython.longlong, handled=cython.longlong, ends=dict,
        area_end=cython.longlong, end=Endpoint, to=Endpoint, endpoints=Endpoints, engine=StepTime,
        turns=Turns, ready=list, large=cython.longlong, full=cython.longlong, limit=cython.longlong, scratch=bytearray,
        requests=MemoryPool, replies=MemoryPool,
    )
    cpdef step(self, timeout_s)

    @cython.locals(start=cython.longlong, stop=cython.longlong, channel=Channel)
    cpdef _take(self, Endpoint end, long long received, long long now_ms)
    cpdef long long _on_slow_path(self, Endpoint end, long long event, long long now_ms) except? -9
    cpdef _received(self, Endpoint end, long long received, long long now_ms)
    @cython.locals(source=Endpoint)
    cpdef _buffer_unsent(self, Endpoint end, long long start, long long stop)
    @cython.locals(
        granted=cython.longlong, limit=cython.longlong, size=cython.longlong, received=cython.longlong,
        at=cython.longlong, engine=StepTime, turns=Turns, requests=MemoryPool, replies=MemoryPool,
    )
    cpdef long long _receive(self, Endpoint end, long long now_ms) except? -9
    cpdef _read_more(self, Endpoint end)
