# Types of manager.py for the compiled build. The rules are in the .py file.

from policies.quota.bucket cimport ClientBuckets, QuotaBucket


cdef class ClientQuotaManager:
    cdef public object _burst_ms, _expiry_ms, _max_default_buckets, _policy, _samples, _window_ms
    cdef public object exempt, quotas
    cdef public bint _smooth, authenticates
    cdef public dict _older_clients, _shared, _tables, clients
    cdef public list _expiry_queue
    cdef public long long _defaults, _fresh_rev, _retry_eviction_ms, epoch
