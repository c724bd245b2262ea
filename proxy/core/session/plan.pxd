# Types of plan.py for the compiled build. The rules are in the .py file.

from policies.client_gate cimport ClientGate
from proxy.core.session cimport paths
from proxy.core.stats.meters cimport Meter
from proxy.core.stats.topic_counter cimport TopicCounter
from wire.fetch_walk cimport FetchWalk
from wire.untagged_reply cimport UntaggedReply


cdef class Plan:
    # Those of the fast paths come first, as in `link.pxd`.
    cdef public bytes prefix
    cdef public long long min_bytes, fast_bytes, request_path, reply_path, fine_us
    cdef public bint counts_fetched, counts_produced, keeps_partitions, shows_names, walks_tail
    cdef public UntaggedReply untagged_shape
    cdef public FetchWalk walk
    cdef public list upstream
    cdef public Meter tally
    cdef public ClientGate gate

    cdef public object acks, api, hooks, joins, lead, on_request, peer, rewrite
    cdef public object slow_variant, stamp, streamed, usage
    cdef public bytes answer, body
    cdef public bint ends_at_deadline, is_sign_on, is_special, silent
    cdef public long long body_at, max_bytes, slow_us, wait_ms
    cdef public Meter meter
    cdef public TopicCounter topics
