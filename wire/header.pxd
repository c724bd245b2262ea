# Types of header.py for the compiled build. The rules are in the .py file.

cimport cython


@cython.locals(stop=cython.longlong, body=cython.longlong, length=cython.longlong)
cpdef body_at(buf, long long pos, long long end, int request_header_version)

@cython.locals(start=cython.longlong, length=cython.longlong)
cpdef bytes client_id_of(buf, long long pos, long long end)

@cython.locals(stop=cython.longlong, body=cython.longlong)
cpdef response_body_at(buf, long long pos, long long end, int response_header_version)
