# Types of event_loop.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.memory.pool cimport MemoryPool
from proxy.core.purgatory.timers cimport Timers
from proxy.core.session.channel cimport Channel
from proxy.core.session.session cimport Session
from proxy.core.session.step_time cimport StepTime
from proxy.core.stats.usage cimport UsageBook
from proxy.core.turns cimport Turns
from proxy.shell cimport loop_limits, masks, settling, side_ending, system_calls
from proxy.shell.clock cimport Clock
from proxy.shell.endpoint cimport Endpoint, Endpoints, add, find, has_pending, register_connected
from proxy.shell.poller cimport EpollPoller
from proxy.shell.steppable cimport Steppable


cdef class EventLoop(Steppable):
    cdef public Endpoints endpoints
    cdef public StepTime _engine
    cdef public Clock _clock
    cdef public Timers _timers
    cdef public Turns _turns
    cdef public UsageBook _usage
    cdef public EpollPoller _epoll
    cdef public MemoryPool _replies, _requests
    cdef public object _area, _small_area, _view, asleep
    cdef public tuple _areas
    cdef public list _due, _others, _tail
    cdef public bint _behind, _checks_backlog
    cdef public long long _area_bytes, _fired_ms, _slice_bytes, _slice_events, _step_bytes, _step_events, _steps
    cdef public long long _then_us, _unfired
    cdef public bytearray _found, _scratch

    @cython.locals(
        endpoints=Endpoints, engine=StepTime, turns=Turns, clock=Clock, ready=list, count=cython.longlong,
        now_us=cython.longlong, now_ms=cython.longlong, by_fd=list, found=bytearray, known=cython.longlong,
        at=cython.longlong, scratch=bytearray, area_end=cython.longlong, requests=MemoryPool, replies=MemoryPool,
        fast=cython.longlong, left=cython.longlong, budget=cython.longlong, end=Endpoint, place=cython.longlong,
        stop_at=cython.longlong, slice_at=cython.longlong, fd=cython.longlong, event=cython.longlong,
        limit=cython.longlong, received=cython.longlong, stop=cython.longlong, to=Endpoint, sent=cython.longlong,
        handled=cython.longlong,
    )
    cpdef long long step(self, double timeout_s) except? -1

    @cython.locals(epoll=EpollPoller)
    cpdef int _poll(self, double timeout_s) except? -1
    cpdef bint _is_over(self, long long begun_us) except -1
    cpdef long long _check_backlog(self, long long count, long long now_us) except? -1
    cpdef int _take_tail(self) except? -1
    cpdef _save_tail(self, long long place, long long count)

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

    @cython.locals(a=Endpoint, b=Endpoint)
    cpdef attach(self, Session session, client, broker=*)

    @cython.locals(a=Endpoint, b=Endpoint)
    cpdef join(self, Session session, broker)

    @cython.locals(session=Session, each=Endpoint)
    cpdef _turn(self, Endpoint end, long long now_ms)
