# The C functions of the type files, for Python: `test_twins.py` compares them with the functions of the modules.

from proxy.core.session cimport frame_heads
from wire cimport one_partition_reads


def request_at(bytearray buf, Py_ssize_t pos):
    return frame_heads.request_at(buf, pos)


def reply_at(bytearray buf, Py_ssize_t pos):
    return frame_heads.reply_at(buf, pos)


def has_prefix(bytearray buf, bytes prefix, Py_ssize_t pos):
    return frame_heads.has_prefix(buf, prefix, pos)


def head_at(bytearray buf, Py_ssize_t pos):
    return one_partition_reads.head_at(buf, pos)


def tail_at(bytearray buf, Py_ssize_t pos):
    return one_partition_reads.tail_at(buf, pos)


TAIL_BYTES = one_partition_reads.TAIL_BYTES
