# Types of link.py for the compiled build. The rules are in the .py file.

from proxy.core.node_health cimport NodeHealth
from proxy.core.session.channel cimport Channel
from proxy.core.session.channel_throttle cimport ChannelThrottle
from proxy.core.session.exchange cimport ObservedExchange
from proxy.core.session.exchange_queue cimport ExchangeQueue
from proxy.core.session.plan_book cimport PlanBook
from proxy.core.session.policy_calls cimport PolicyCalls
from proxy.core.session.step_time cimport StepTime
from proxy.core.stats.topic_counter cimport TopicCounter
from proxy.core.stats.usage cimport Usage
from proxy.core.turns cimport ScheduledSession
from wire.fetch_walk cimport FetchWalk
from wire.produce cimport ProduceWalker


cdef class Link(ScheduledSession):
    cdef public object detail, gathered, held, in_flight, judged, judgement, known_claim, peer, pending
    cdef public object questions, reason, sasl, wait_timer
    cdef public long long exchange_ids, keep_steps, replied_ms, reply_bytes, reply_left, request_left, request_mode
    cdef public long long sample_left, settled, taken_bytes, taken_ms, unanswered_ms, uncounted, wait_at_ms, wanted
    cdef public bint diverted, draining, ended, ending, is_patient, nothing_due, samples
    cdef public Channel broker, client
    cdef public ChannelThrottle throttle
    cdef public ExchangeQueue queue
    cdef public FetchWalk reply_walk
    cdef public TopicCounter reply_topics
    cdef public NodeHealth node
    cdef public ObservedExchange passing
    cdef public PlanBook plans
    cdef public PolicyCalls calls
    cdef public ProduceWalker walker
    cdef public StepTime shared
    cdef public Usage usage

    cpdef long long next_exchange_id(self)
    cpdef end(self, reason, detail, long long now_ms)
    cpdef end_after_replies(self, reason, detail=*)
    cpdef maybe_end(self)
