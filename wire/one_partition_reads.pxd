# The functions of one_partition_reads.py in C, for the compiled build. The bounds are checked as in Python.

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE

cdef enum:
    TAIL_BYTES = 40


cdef inline (int, int) head_at(bytearray buf, Py_ssize_t pos) except *:
    if pos < 0 or PyByteArray_GET_SIZE(buf) - pos < 3:
        raise IndexError(f"3 bytes needed at {pos} of {len(buf)}")
    cdef const unsigned char* at = <const unsigned char*>PyByteArray_AS_STRING(buf) + pos
    return (at[0] << 8) | at[1], at[2]


cdef inline (int, unsigned int, int) tail_at(bytearray buf, Py_ssize_t pos) except *:
    if pos < 0 or PyByteArray_GET_SIZE(buf) - pos < TAIL_BYTES:
        raise IndexError(f"{TAIL_BYTES} bytes needed at {pos} of {len(buf)}")
    cdef const unsigned char* at = <const unsigned char*>PyByteArray_AS_STRING(buf) + pos
    return (
        at[0],
        (<unsigned int>at[31] << 24) | (at[32] << 16) | (at[33] << 8) | at[34],
        at[39],
    )
