# The functions of produce_runs.py in C, for the compiled build. The bounds are checked as in Python.

from cpython.bytearray cimport (
    PyByteArray_AS_STRING,
    PyByteArray_FromStringAndSize,
    PyByteArray_GET_SIZE,
    PyByteArray_Resize,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memcpy

cdef enum:
    HEAD = 0
    TOPIC = 1
    PARTITION = 2
    TAG_COUNT = 3
    TAG = 4
    END = 5

cdef enum:
    IN_BODY = 0
    IN_TOPIC = 1
    IN_PARTITION = 2

cdef enum:
    COMPACT_SINCE = 9
    TOPIC_IDS_SINCE = 13
    TOPIC_ID_BYTES = 16
    PACKED_TOPIC_BYTES = 6
    INDEX_BYTES = 4
    RECORDS_SIZE_BYTES = 5
    RESPONSE_BYTES = 33
    PIECE_BYTES = 256


cdef inline int check(bytearray buf, Py_ssize_t pos, Py_ssize_t end) except -1:
    if not 0 <= pos <= PyByteArray_GET_SIZE(buf) or end > PyByteArray_GET_SIZE(buf):
        raise IndexError(f"[{pos}:{end}] is not inside {len(buf)} bytes")
    return 0


cdef inline int append(bytearray packed, const unsigned char* more, Py_ssize_t size) except -1:
    cdef Py_ssize_t before = PyByteArray_GET_SIZE(packed)
    PyByteArray_Resize(packed, before + size)
    memcpy(PyByteArray_AS_STRING(packed) + before, more, size)
    return 0


cdef inline int int32_in(const unsigned char* at) noexcept nogil:
    return <int>((<unsigned int>at[0] << 24) | (at[1] << 16) | (at[2] << 8) | at[3])


cdef inline bytes piece(bytearray buf, Py_ssize_t pos, Py_ssize_t end):
    check(buf, pos, end)
    return PyBytes_FromStringAndSize(PyByteArray_AS_STRING(buf) + pos, max(end - pos, 0))


cdef inline Py_ssize_t single_partition_head_end(
    bytearray buf, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t version
) except -1:
    cdef const unsigned char* data
    cdef Py_ssize_t end
    cdef bint one
    check(buf, at, stop)
    data = <const unsigned char*>PyByteArray_AS_STRING(buf)
    if version >= TOPIC_IDS_SINCE:
        end = at + 1 + TOPIC_ID_BYTES + 1 + 4
        one = end < stop and data[at] == 2 and data[end - 5] == 2
    elif version >= COMPACT_SINCE:
        if at + 2 > stop:
            return 0
        end = at + data[at + 1] + 1 + 1 + 4
        one = data[at + 1] < 0x80 and end < stop and data[at] == 2 and data[end - 5] == 2
    else:
        if at + 6 > stop or int32_in(data + at) != 1:
            return 0
        end = at + 6 + ((data[at + 4] << 8) | data[at + 5]) + 4 + 4
        one = end < stop and int32_in(data + end - 8) == 1
    return end if one else 0


cdef inline Py_ssize_t partition_end(
    const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, bint compact
) noexcept nogil:
    """Return the offset after the partition at `pos`; 0 if it is left to another reader."""
    cdef Py_ssize_t size, at = pos + 4
    if pos + 8 > end:
        return 0
    if not compact:
        at += 4 + <Py_ssize_t><unsigned int>int32_in(data + at)
        return at if at <= end else 0
    size = data[at]
    if size >= 0x80:
        at += 1
        size = (size & 0x7F) | (<Py_ssize_t>(data[at] & 0x7F) << 7)
        if data[at] >= 0x80:
            at += 1
            if data[at] >= 0x80:
                return 0
            size |= <Py_ssize_t>data[at] << 14
    at += size
    return at + 1 if size and at < end and data[at] == 0 else 0


cdef inline (Py_ssize_t, Py_ssize_t) take_partitions(
    bytearray buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t left, bytearray packed, bint compact
) except *:
    cdef const unsigned char* data
    cdef unsigned char piece[PIECE_BYTES]
    cdef Py_ssize_t filled = 0, after
    check(buf, pos, end)
    data = <const unsigned char*>PyByteArray_AS_STRING(buf)
    while left:
        after = partition_end(data, pos, end, compact)
        if after == 0:
            break
        memcpy(piece + filled, data + pos, 4)
        filled += 4
        if filled == PIECE_BYTES:
            append(packed, piece, filled)
            filled = 0
        pos = after
        left -= 1
    if filled:
        append(packed, piece, filled)
    return pos, left


cdef inline (Py_ssize_t, Py_ssize_t) size_at(
    const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t width
) noexcept nogil:
    cdef Py_ssize_t size, stop = pos + (width or 1)
    if stop >= end:
        return -1, pos
    if width == 2:
        return <short>((data[pos] << 8) | data[pos + 1]), stop
    if width:
        return int32_in(data + pos), stop
    size = data[pos]
    if size >= 0x80:
        if data[stop] >= 0x80:
            return -1, pos
        size = (size & 0x7F) | (<Py_ssize_t>data[stop] << 7)
        stop += 1
    return size - 1, stop


cdef inline void put_topic_head(unsigned char* out, Py_ssize_t length, Py_ssize_t partitions) noexcept nogil:
    out[0], out[1] = (length >> 8) & 0xFF, length & 0xFF
    out[2], out[3] = (partitions >> 24) & 0xFF, (partitions >> 16) & 0xFF
    out[4], out[5] = (partitions >> 8) & 0xFF, partitions & 0xFF


cdef inline int pack_topic(
    bytearray packed, bytearray buf, Py_ssize_t name_at, Py_ssize_t length, Py_ssize_t partitions
) except -1:
    cdef unsigned char head[PACKED_TOPIC_BYTES]
    check(buf, name_at, name_at + length)
    put_topic_head(head, length, partitions)
    append(packed, head, PACKED_TOPIC_BYTES)
    return append(packed, <const unsigned char*>PyByteArray_AS_STRING(buf) + name_at, length)


cdef inline int pack_index(bytearray packed, bytearray buf, Py_ssize_t pos) except -1:
    check(buf, pos, pos + 4)
    return append(packed, <const unsigned char*>PyByteArray_AS_STRING(buf) + pos, 4)


cdef inline Py_ssize_t pack_into(
    unsigned char* out, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t version,
    Py_ssize_t max_bytes
) noexcept nogil:
    """Write the packed topics to `out` (NULL: nowhere); return their size, -1 for what `pack_untagged` refuses."""
    cdef Py_ssize_t topics, length, name_at, partitions, after, size = 0
    cdef bint compact = version >= COMPACT_SINCE
    topics, pos = size_at(data, pos, end, 0 if compact else 4)
    while topics > 0:
        topics -= 1
        length = TOPIC_ID_BYTES
        if version < TOPIC_IDS_SINCE:
            length, pos = size_at(data, pos, end, 0 if compact else 2)
        name_at = pos
        partitions, pos = size_at(data, pos + length, end, 0 if compact else 4)
        if length < 0 or partitions < 0:
            return -1
        if size + PACKED_TOPIC_BYTES + length + INDEX_BYTES * partitions > max_bytes:
            return -1
        if out != NULL:
            put_topic_head(out + size, length, partitions)
            memcpy(out + size + PACKED_TOPIC_BYTES, data + name_at, length)
        size += PACKED_TOPIC_BYTES + length
        while partitions:
            partitions -= 1
            after = partition_end(data, pos, end, compact)
            if after == 0:
                return -1
            if out != NULL:
                memcpy(out + size, data + pos, INDEX_BYTES)
            size += INDEX_BYTES
            pos = after
        if compact:
            if pos >= end or data[pos] != 0:
                return -1
            pos += 1
    return -1 if topics < 0 or pos != end - compact or (compact and data[pos] != 0) else size


cdef inline bytes pack_untagged(
    bytearray buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t version, Py_ssize_t max_bytes
):
    cdef const unsigned char* data
    cdef bytes packed
    cdef Py_ssize_t size
    check(buf, pos, end)
    data = <const unsigned char*>PyByteArray_AS_STRING(buf)
    size = pack_into(NULL, data, pos, end, version, max_bytes)  # all is checked: the second walk only writes
    if size < 0:
        return None
    packed = PyBytes_FromStringAndSize(NULL, size)
    pack_into(<unsigned char*>PyBytes_AS_STRING(packed), data, pos, end, version, max_bytes)
    return packed


cdef inline Py_ssize_t untagged_topics_end(
    bytearray buf, Py_ssize_t pos, Py_ssize_t end, bint by_id
) except -9:
    cdef const unsigned char* data
    cdef Py_ssize_t topics, length, partitions, stop
    check(buf, pos, end)
    data = <const unsigned char*>PyByteArray_AS_STRING(buf)
    topics, pos = size_at(data, pos, end, 0)
    if topics <= 0:
        return -1
    while topics:
        topics -= 1
        length = TOPIC_ID_BYTES
        if not by_id:
            length, pos = size_at(data, pos, end, 0)
        partitions, pos = size_at(data, pos + length, end, 0)
        stop = pos + RESPONSE_BYTES * partitions
        if length < 0 or partitions <= 0 or stop >= end or data[stop] != 0:
            return -1
        while pos < stop:
            pos += RESPONSE_BYTES
            if data[pos - 3] != 1 or data[pos - 2] != 0 or data[pos - 1] != 0:
                return -1
        pos = stop + 1
    return pos
