# Types of bucket.py for the compiled build. The rules are in the .py file.

from policies.quota.rate cimport ReleaseSchedule, SampledRate
from policies.quota.sensors cimport ThrottleTime


cdef class Waiter:
    cdef public QuotaBucket bucket
    cdef public object cost, exchange_id, peer, session_id
    cdef public bint paid


cdef class QuotaBucket(ReleaseSchedule):
    cdef public object key, limit, name, policy, queue, rev, tags
    cdef public bint is_default
    cdef public double mean_reply_bytes, queued_cost
    cdef public long long born_ms, fetches_in_flight
    cdef public SampledRate rate
    cdef public ThrottleTime throttle_time

    cpdef violation_for_delay(self, double delay_ms, long long now_ms)
    cpdef record_throttle(self, long long throttle_time_ms, long long now_ms)


cdef class ClientBuckets:
    cdef public QuotaBucket fetch, produce, request
