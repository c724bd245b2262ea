# Types of timing_wheel.py for the compiled build. The rules are in the .py file.

cimport cython


cdef class TimerEntry:
    cdef public long long at_ms
    cdef public dict bucket

    cpdef cancel(self)
    cpdef fire(self, long long now_ms)


cdef class Bucket:
    cdef public dict added, moved
    cdef public bint queued


cdef class Wheel:
    cdef public list buckets
    cdef public long long interval_ms, tick_ms, turns_ms, until_ms
    cdef public Wheel overflow

    @cython.locals(begun_ms=cython.longlong)
    cpdef turn(self, long long now_ms)


cdef class TimingWheel:
    cdef public Wheel _finest
    cdef public list _queue
    cdef public long long _size, _time_ms, soonest_ms

    @cython.locals(
        entries=dict, at_ms=cython.longlong, tick_ms=cython.longlong, due_ms=cython.longlong, wheel=Wheel,
        bucket=Bucket,
    )
    cpdef bint add(self, TimerEntry entry) except -1
    cpdef bint try_skip_to(self, long long now_ms) except -1

    @cython.locals(
        queue=list, due=list, tick_ms=cython.longlong, expires_ms=cython.longlong,
        width=cython.longlong, bucket=Bucket, entries=dict,
    )
    cpdef list advance(self, long long now_ms)

    @cython.locals(
        finest=Wheel, wheel=Wheel, bucket=Bucket, entry=TimerEntry, size=cython.longlong,
        at_ms=cython.longlong, tick_ms=cython.longlong, moved=dict,
    )
    cpdef _move_down(self, dict entries, list due)

    @cython.locals(queue=list, bucket=Bucket)
    cpdef long long next_by(self, long long until_ms) except? -1

    @cython.locals(queue=list)
    cpdef prune(self)
    cpdef _find_soonest(self)

    @cython.locals(now_ms=cython.longlong, wheel=Wheel)
    cpdef _turn(self)
    cpdef Wheel _grow(self, Wheel wheel)
