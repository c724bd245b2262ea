# Types of side_ending.py for the compiled build. The rules are in the .py file.

from proxy.shell.endpoint cimport Endpoint, Endpoints, remove


cpdef lose(Endpoints endpoints, Endpoint end, long long now_ms, error)
cpdef finish(Endpoints endpoints, Endpoint end)
cpdef close(Endpoints endpoints, Endpoint end, long long now_ms)
cpdef abandon(Endpoints endpoints, Endpoint end, long long now_ms)
cpdef unlink_closed(Endpoints endpoints)
