# Types of smooth_rule.py for the compiled build. The rules are in the .py file.

cimport cython

from policies.quota.bucket cimport ClientBuckets, QuotaBucket
from policies.quota.manager cimport ClientQuotaManager


cdef class SmoothRule:
    cdef public dict _alarms, _fetches, _held, hooks_by_api
    cdef public object _burst_ms, _find, _find_hook, _host
    cdef public ClientQuotaManager manager

    @cython.locals(account=ClientBuckets, bucket=QuotaBucket, ahead_ms=cython.double)
    cpdef on_request(self, request, peer, long long now_ms)

    @cython.locals(account=ClientBuckets, produce=QuotaBucket, bucket=QuotaBucket)
    cpdef _on_produce(self, request, peer, long long now_ms)

    @cython.locals(longest_ms=cython.longlong, longest=QuotaBucket, left_ms=cython.double)
    cpdef _throttle(self, tuple buckets, long long now_ms)


cpdef _throttle(QuotaBucket bucket, double left_ms, long long now_ms)
