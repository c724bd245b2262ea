# The C functions of the type files, for Python: `test_twins.py` compares them with the functions of the modules.

from proxy.core.session cimport frame_heads


def request_at(bytearray buf, Py_ssize_t pos):
    return frame_heads.request_at(buf, pos)


def reply_at(bytearray buf, Py_ssize_t pos):
    return frame_heads.reply_at(buf, pos)


def has_prefix(bytearray buf, bytes prefix, Py_ssize_t pos):
    return frame_heads.has_prefix(buf, prefix, pos)
