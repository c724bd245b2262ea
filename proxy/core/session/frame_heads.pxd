# The functions of frame_heads.py in C, for the compiled build. The bounds are checked as in Python.

from cpython.bytearray cimport (
    PyByteArray_AS_STRING,
    PyByteArray_FromStringAndSize,
    PyByteArray_GET_SIZE,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp

cdef enum:
    REQUEST_BYTES = 12
    REPLY_BYTES = 8
    MAX_KEPT_BYTES = 1024


cdef inline int int32_in(const unsigned char* at) noexcept nogil:
    return <int>((<unsigned int>at[0] << 24) | (at[1] << 16) | (at[2] << 8) | at[3])


cdef inline (int, int, int) request_at(bytearray buf, Py_ssize_t pos) except *:
    if pos < 0 or PyByteArray_GET_SIZE(buf) - pos < 12:
        raise IndexError(f"12 bytes needed at {pos} of {len(buf)}")
    cdef const unsigned char* at = <const unsigned char*>PyByteArray_AS_STRING(buf) + pos
    return int32_in(at), int32_in(at + 4), int32_in(at + 8)


cdef inline (int, int) reply_at(bytearray buf, Py_ssize_t pos) except *:
    if pos < 0 or PyByteArray_GET_SIZE(buf) - pos < 8:
        raise IndexError(f"8 bytes needed at {pos} of {len(buf)}")
    cdef const unsigned char* at = <const unsigned char*>PyByteArray_AS_STRING(buf) + pos
    return int32_in(at), int32_in(at + 4)


cdef inline bint has_prefix(bytearray buf, bytes prefix, Py_ssize_t pos) except -1:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(prefix)
    if pos < 0 or PyByteArray_GET_SIZE(buf) - pos < size:
        return False
    return memcmp(PyByteArray_AS_STRING(buf) + pos, PyBytes_AS_STRING(prefix), size) == 0


cdef inline bytearray copy(bytearray buf, Py_ssize_t start, Py_ssize_t stop):
    if not 0 <= start <= stop <= PyByteArray_GET_SIZE(buf):
        raise IndexError(f"[{start}:{stop}] is not inside {len(buf)} bytes")
    return PyByteArray_FromStringAndSize(PyByteArray_AS_STRING(buf) + start, stop - start)
