# Types of plan.py for the compiled build. The rules are in the .py file.

from policies.client_gate cimport ClientGate
from proxy.core.session cimport paths
from proxy.core.stats.meters cimport Meter
from proxy.core.stats.topic_counter cimport TopicCounter
from wire.fetch_walk cimport FetchWalk
from wire.untagged_reply cimport UntaggedReply


cdef class Plan:
    cdef public object acks, api, hooks, joins, lead, on_request, peer, rewrite
    cdef public object slow_variant, stamp, streamed, usage
    cdef public bytes answer, body, prefix
    cdef public bint counts_fetched, counts_produced, ends_at_deadline, is_sign_on, is_special, keeps_partitions
    cdef public bint shows_names, silent, walks_tail
    cdef public long long body_at, fast_bytes, fine_us, max_bytes, min_bytes, reply_path, request_path, slow_us, wait_ms
    cdef public ClientGate gate
    cdef public Meter meter, tally
    cdef public TopicCounter topics
    cdef public UntaggedReply untagged_shape
    cdef public FetchWalk walk
    cdef public list upstream
