# The functions of topic_runs.py in C, for the compiled build. The bounds are checked as in Python.

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp

from wire.produce_runs cimport check, int32_in

cdef enum:
    HEADER = 0
    START = 1
    TOPIC = 2
    PARTITION = 3
    ABORTED = 4
    SIZE = 5
    TAG_COUNT = 6
    TAG = 7
    END = 8

cdef enum:
    IN_HEADER = 0
    IN_TOPIC = 1
    IN_PARTITION = 2
    IN_ABORTED = 3

cdef enum:
    MAX_FEED_STEPS = 32_768
    HEADER_BYTES = 8
    OLD_HEAD_BYTES = 17
    HEAD_BYTES = 61


cdef inline (Py_ssize_t, Py_ssize_t) size_in(
    const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t width
) noexcept nogil:
    cdef Py_ssize_t value = 0, shift = 0
    if width:
        if pos + width > end:
            return -2, pos
        if width == 2:
            return <short>((data[pos] << 8) | data[pos + 1]), pos + 2
        return int32_in(data + pos), pos + 4
    while pos < end and shift < 28:
        value |= <Py_ssize_t>(data[pos] & 0x7F) << shift
        pos += 1
        if data[pos - 1] < 0x80:
            return value - 1, pos
        shift += 7
    return -2, pos


cdef inline (Py_ssize_t, Py_ssize_t) batch_in(const unsigned char* data, Py_ssize_t left) noexcept nogil:
    cdef Py_ssize_t size, records
    if left < OLD_HEAD_BYTES:
        return 0, 0
    size = <Py_ssize_t>int32_in(data + 8) + 12
    if data[16] < 2:
        return size if size > OLD_HEAD_BYTES else OLD_HEAD_BYTES, 1
    if left < HEAD_BYTES:
        return 0, 0
    records = int32_in(data + 57)
    return size if size > HEAD_BYTES else HEAD_BYTES, records if records > 0 else 0


cdef inline (Py_ssize_t, Py_ssize_t) size_at(
    bytearray buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t width
) except *:
    if pos >= end:
        return -2, pos
    check(buf, pos, end)
    return size_in(<const unsigned char*>PyByteArray_AS_STRING(buf), pos, end, width)


cdef inline bint holds(bytearray buf, Py_ssize_t pos, Py_ssize_t end, bytes topic) except -1:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(topic)
    if pos + size > end:
        return False
    check(buf, pos, end)
    return memcmp(PyByteArray_AS_STRING(buf) + pos, PyBytes_AS_STRING(topic), size) == 0


cdef inline (Py_ssize_t, Py_ssize_t) batch_at(bytearray buf, Py_ssize_t pos, Py_ssize_t end) except *:
    check(buf, pos, end)
    return batch_in(<const unsigned char*>PyByteArray_AS_STRING(buf) + pos, end - pos)


cdef inline (Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t) sum_in(
    const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t left, Py_ssize_t fixed_bytes,
    bint has_aborted, Py_ssize_t replica_bytes, bint compact
) noexcept nogil:
    cdef Py_ssize_t size_bytes = 0, batches = 0, records = 0, at, stop, size, count
    cdef Py_ssize_t width = 0 if compact else 4
    while left:
        at = pos + fixed_bytes
        if has_aborted:
            size, at = size_in(data, at, end, width)
            if size > 0 or size < -1:
                break
            at += replica_bytes
        size, at = size_in(data, at, end, width)
        if size < -1:
            break
        stop = at + size if size > 0 else at
        if stop + compact > end or (compact and data[stop]):
            break
        size_bytes += stop - at
        while at < stop:
            size, count = batch_in(data + at, stop - at)
            if not size:
                break
            batches += 1
            records += count
            at += size
        pos = stop + compact
        left -= 1
    return pos, left, size_bytes, batches, records


cdef inline (Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t) sum_partitions(
    bytearray buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t left, Py_ssize_t fixed_bytes, bint has_aborted,
    Py_ssize_t replica_bytes, bint compact
) except *:
    check(buf, pos, end)
    return sum_in(
        <const unsigned char*>PyByteArray_AS_STRING(buf), pos, end, left, fixed_bytes, has_aborted, replica_bytes,
        compact,
    )


cdef inline (Py_ssize_t, Py_ssize_t) topic_in(
    const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, bytes topic, bint by_id, bint compact
):
    cdef Py_ssize_t left, partitions, length = PyBytes_GET_SIZE(topic), size = length
    left, pos = size_in(data, pos, end, 0 if compact else 4)
    if left == 1 and not by_id:
        size, pos = size_in(data, pos, end, 0 if compact else 2)
    if left != 1 or size != length or pos + length > end or memcmp(data + pos, PyBytes_AS_STRING(topic), length):
        return 0, pos
    partitions, pos = size_in(data, pos + length, end, 0 if compact else 4)
    return partitions if partitions > 0 else 0, pos


cdef inline (Py_ssize_t, Py_ssize_t) find_topic(
    bytearray buf, Py_ssize_t pos, Py_ssize_t end, bytes topic, bint by_id, bint compact
) except *:
    check(buf, pos, end)
    return topic_in(<const unsigned char*>PyByteArray_AS_STRING(buf), pos, end, topic, by_id, compact)


cdef inline (Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t) sum_topic(
    bytearray buf, Py_ssize_t pos, Py_ssize_t end, bytes topic, Py_ssize_t most, bint by_id, Py_ssize_t fixed_bytes,
    bint has_aborted, Py_ssize_t replica_bytes, bint compact
) except *:
    cdef const unsigned char* data
    cdef Py_ssize_t left, partitions, size_bytes, batches, records
    check(buf, pos, end)
    data = <const unsigned char*>PyByteArray_AS_STRING(buf)
    partitions, pos = topic_in(data, pos, end, topic, by_id, compact)
    if not 0 < partitions < most:
        return -1, 0, 0, 0, 0
    pos, left, size_bytes, batches, records = sum_in(
        data, pos, end, partitions, fixed_bytes, has_aborted, replica_bytes, compact
    )
    if left or (compact and (pos >= end or data[pos])):
        return -1, 0, 0, 0, 0
    return pos + compact, partitions, size_bytes, batches, records


cdef inline (
    Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t
) follow_topic(
    bytearray buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t left, Py_ssize_t field_bytes, Py_ssize_t batch_bytes,
    Py_ssize_t fixed_bytes, bint has_aborted, Py_ssize_t replica_bytes, bint compact
) except *:
    cdef const unsigned char* data
    cdef Py_ssize_t partitions = 0, size_bytes = 0, batches = 0, records = 0, at, stop, size, count
    cdef Py_ssize_t width = 0 if compact else 4
    check(buf, pos, end)
    data = <const unsigned char*>PyByteArray_AS_STRING(buf)
    while pos < end and left >= 0:
        if field_bytes > 0:
            stop = end if field_bytes > end - pos else pos + field_bytes
            at = stop if batch_bytes > stop - pos else pos + batch_bytes
            batch_bytes -= at - pos
            if at < stop:
                batch_bytes, count = batch_in(data + at, stop - at)
                if batch_bytes:
                    batches += 1
                    records += count
                elif stop == pos + field_bytes:
                    at = stop
            if at == pos and not batch_bytes:
                break
            field_bytes -= at - pos
            pos = at
            if not field_bytes:
                batch_bytes = 0
                field_bytes = -<Py_ssize_t>compact
        elif field_bytes < 0:
            if data[pos]:
                break
            field_bytes = 0
            pos += 1
        elif left:
            at = pos + fixed_bytes
            if has_aborted:
                size, at = size_in(data, at, end, width)
                if size > 0 or size < -1:
                    break
                at += replica_bytes
            size, at = size_in(data, at, end, width)
            if size < -1:
                break
            left -= 1
            partitions += 1
            pos = at
            size_bytes += size if size > 0 else 0
            field_bytes = size if size > 0 else -<Py_ssize_t>compact
        elif compact and data[pos]:
            break
        else:
            pos += compact
            left = -1
    if not (left or field_bytes or compact):
        left = -1
    return pos, left, field_bytes, batch_bytes, partitions, size_bytes, batches, records


cdef enum:
    FETCHED_BYTES = 30
    ABORTED_BYTES = 17
    REPLICA_BYTES = 4


cdef inline (Py_ssize_t, Py_ssize_t) records_in(
    const unsigned char* data, Py_ssize_t pos, Py_ssize_t end
) noexcept nogil:
    cdef Py_ssize_t aborted, at, stop
    aborted, at = size_in(data, pos + FETCHED_BYTES, end, 0)
    if aborted < -1:
        return -2, pos
    if aborted > 0:
        stop = at + ABORTED_BYTES * aborted
        if stop > end:
            return -2, pos
        while at < stop:
            at += ABORTED_BYTES
            if data[at - 1]:
                return -2, pos
    return size_in(data, at + REPLICA_BYTES, end, 0)


cdef inline (Py_ssize_t, Py_ssize_t) step_partitions_in(
    const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t left
) noexcept nogil:
    cdef const unsigned char* head
    cdef Py_ssize_t size, at, stop
    while left:
        head = data + pos + FETCHED_BYTES
        at = 0
        if pos + FETCHED_BYTES + 8 < end and head[0] <= 1:  # nearly always: nothing is aborted
            if head[5] < 0x80:
                size, at = head[5], 6
            elif head[6] < 0x80:
                size, at = (head[5] & 0x7F) | (<Py_ssize_t>head[6] << 7), 7
            elif head[7] < 0x80:
                size = (head[5] & 0x7F) | (<Py_ssize_t>(head[6] & 0x7F) << 7) | (<Py_ssize_t>head[7] << 14)
                at = 8
        if at:
            stop = pos + FETCHED_BYTES + at + (size - 1 if size else 0)
            if stop >= end or data[stop]:
                break
            pos = stop + 1
            left -= 1
            continue
        size, at = records_in(data, pos, end)
        stop = at + size if size > 0 else at
        if size < -1 or stop >= end or data[stop]:
            break
        pos = stop + 1
        left -= 1
    return pos, left


cdef inline (Py_ssize_t, Py_ssize_t) records_at(bytearray buf, Py_ssize_t pos, Py_ssize_t end) except *:
    check(buf, pos, end)
    return records_in(<const unsigned char*>PyByteArray_AS_STRING(buf), pos, end)


cdef inline (Py_ssize_t, Py_ssize_t) step_partitions(
    bytearray buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t left
) except *:
    check(buf, pos, end)
    return step_partitions_in(<const unsigned char*>PyByteArray_AS_STRING(buf), pos, end, left)


cdef inline (Py_ssize_t, Py_ssize_t, Py_ssize_t) step_topics(
    bytearray buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t left, Py_ssize_t most
) except *:
    cdef const unsigned char* data
    cdef Py_ssize_t partitions, at, cut
    check(buf, pos, end)
    data = <const unsigned char*>PyByteArray_AS_STRING(buf)
    while left:
        partitions, at = size_in(data, pos + 16, end, 0)
        if partitions <= 0 or partitions > most:
            break
        at, cut = step_partitions_in(data, at, end, partitions)
        if cut or at >= end or data[at]:
            break
        most -= partitions
        pos = at + 1
        left -= 1
    return pos, left, most
