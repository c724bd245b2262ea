# The functions of system_calls.py in C, for the compiled build. The bounds are checked as in Python.

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals, PyErr_SetFromErrno
from libc.errno cimport EAGAIN, EINTR, errno

cdef extern from *:
    """
    #include <errno.h>
    #include <time.h>
    #include <sys/types.h>
    #include <sys/socket.h>
    #ifdef __linux__
    #include <sys/epoll.h>
    #endif

    typedef struct { int fd; unsigned int events; } sluice_event;

    static int sluice_poll(int fd, sluice_event *found, int max_events, int timeout_ms) {
    #ifdef __linux__
        struct epoll_event events[64];
        int i, count = epoll_wait(fd, events, max_events, timeout_ms);
        for (i = 0; i < count; i++) {
            found[i].fd = events[i].data.fd;
            found[i].events = events[i].events;
        }
        return count;
    #else
        (void)fd; (void)found; (void)max_events; (void)timeout_ms;
        errno = ENOSYS;
        return -1;
    #endif
    }

    static long long sluice_monotonic_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (long long)now.tv_sec * 1000000000LL + now.tv_nsec;
    }
    """
    ctypedef struct sluice_event:
        int fd
        unsigned int events

    ssize_t c_recv "recv"(int fd, void* at, size_t size, int flags) noexcept nogil
    ssize_t c_send "send"(int fd, const void* at, size_t size, int flags) noexcept nogil
    int sluice_poll(int fd, sluice_event* found, int max_events, int timeout_ms) noexcept nogil
    long long sluice_monotonic_ns() noexcept nogil

cdef enum:
    PAYS = 1
    NOT_NOW = -1
    BROKEN = -2
    MAX_EVENTS = 64


cdef inline Py_ssize_t receive(int fd, bytearray buf, Py_ssize_t start, Py_ssize_t stop) except -3:
    if not 0 <= start <= stop <= PyByteArray_GET_SIZE(buf):
        raise IndexError(f"[{start}:{stop}] is not inside {len(buf)} bytes")
    if start == stop:
        return 0
    cdef Py_ssize_t received = c_recv(fd, PyByteArray_AS_STRING(buf) + start, stop - start, 0)
    while received < 0 and errno == EINTR:
        PyErr_CheckSignals()
        received = c_recv(fd, PyByteArray_AS_STRING(buf) + start, stop - start, 0)
    if received >= 0:
        return received
    return NOT_NOW if errno == EAGAIN else BROKEN


cdef inline Py_ssize_t send(int fd, bytearray buf, Py_ssize_t start, Py_ssize_t stop) except -3:
    if not 0 <= start <= stop <= PyByteArray_GET_SIZE(buf):
        raise IndexError(f"[{start}:{stop}] is not inside {len(buf)} bytes")
    cdef Py_ssize_t sent = c_send(fd, PyByteArray_AS_STRING(buf) + start, stop - start, 0)
    while sent < 0 and errno == EINTR:
        PyErr_CheckSignals()
        sent = c_send(fd, PyByteArray_AS_STRING(buf) + start, stop - start, 0)
    if sent >= 0:
        return sent
    return NOT_NOW if errno == EAGAIN else BROKEN


cdef inline long long monotonic_ns() noexcept:
    return sluice_monotonic_ns()


cdef inline int fill(sluice_event* found, int fd, double timeout_s, int max_events) except -1:
    cdef int count, timeout_ms
    cdef long long timeout_ns
    cdef double until_s
    if not 1 <= max_events <= MAX_EVENTS:
        raise ValueError(f"max_events is {max_events}, not within 1..{MAX_EVENTS}")
    if timeout_s > 0:
        until_s = sluice_monotonic_ns() * 1e-9 + timeout_s
        while True:
            # rounded up, and as Python does it
            timeout_ns = <long long>min(timeout_s * 1e9, 2147483647e6)
            timeout_ns += timeout_ns < timeout_s * 1e9
            timeout_ms = <int>((timeout_ns + 999_999) // 1_000_000)
            with nogil:
                count = sluice_poll(fd, found, max_events, timeout_ms)
            if count >= 0 or errno != EINTR:
                break
            PyErr_CheckSignals()
            timeout_s = max(0.0, until_s - sluice_monotonic_ns() * 1e-9)
    else:
        count = sluice_poll(fd, found, max_events, 0)
    if count < 0:
        PyErr_SetFromErrno(OSError)
    return count


cdef inline list poll(int fd, double timeout_s, int max_events):
    cdef sluice_event found[64]
    cdef int count = fill(found, fd, timeout_s, max_events), place
    return [(found[place].fd, found[place].events) for place in range(count)]


cdef inline bytearray new_events():
    return PyByteArray_FromStringAndSize(NULL, MAX_EVENTS * sizeof(sluice_event))


cdef inline sluice_event* places(bytearray found, Py_ssize_t count) except NULL:
    if not 0 <= count * <Py_ssize_t>sizeof(sluice_event) <= PyByteArray_GET_SIZE(found):
        raise IndexError(f"no room for {count} events")
    return <sluice_event*>PyByteArray_AS_STRING(found)


cdef inline int poll_into(bytearray found, int fd, double timeout_s, int max_events) except -1:
    return fill(places(found, MAX_EVENTS), fd, timeout_s, max_events)


cdef inline int put_events(bytearray found, events) except -1:
    cdef sluice_event* at = places(found, len(events))
    cdef int count = 0
    for fd, mask in events:
        at[count] = sluice_event(fd, mask)
        count += 1
    return count


cdef inline (int, int) event_at(bytearray found, Py_ssize_t place) except *:
    if place < 0:
        raise IndexError(f"no event at {place}")
    cdef sluice_event* at = places(found, place + 1) + place
    return at.fd, <int>at.events
