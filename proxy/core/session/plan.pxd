# Types of plan.py for the compiled build. The rules are in the .py file.

from proxy.core.stats.meters cimport Meter
from wire.one_partition_reply cimport OnePartitionReply


cdef class Plan:
    cdef public object acks, api, gate, hooks, joins, lead, on_request, peer, rewrite
    cdef public object slow_variant, stamp, streamed, usage
    cdef public bytes answer, prefix
    cdef public bint cut, fast, is_special, keeps, names, plain, reads, simple, spared, topics
    cdef public long long body_at, fast_bytes, fine_us, max_bytes, min_bytes, slow_us, wait_ms
    cdef public Meter meter, tally
    cdef public OnePartitionReply glance, look
    cdef public list upstream
