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
    # Those of the fast paths come first: at ordinary rates each line of the cache that they fill is a miss.
    cdef public long long settled, request_left, reply_left, request_mode, replied_ms, wait_at_ms, uncounted, keep_steps
    cdef public bint diverted, samples
    cdef public object in_flight, pending
    cdef public ChannelThrottle throttle
    cdef public ExchangeQueue queue
    cdef public NodeHealth node
    cdef public PlanBook plans
    cdef public StepTime shared
    cdef public Usage usage

    cdef public object detail, gathered, held, judged, judgement, known_claim, peer, questions, reason, sasl, wait_timer
    cdef public long long exchange_ids, reply_bytes, sample_left, taken_bytes, taken_ms, unanswered_ms, wanted
    cdef public bint draining, ended, ending, is_patient, nothing_due
    cdef public Channel broker, client
    cdef public FetchWalk reply_walk
    cdef public TopicCounter reply_topics
    cdef public ObservedExchange passing
    cdef public PolicyCalls calls
    cdef public ProduceWalker walker

    cpdef long long next_exchange_id(self)
    cpdef end(self, reason, detail, long long now_ms)
    cpdef end_after_replies(self, reason, detail=*)
    cpdef maybe_end(self)
