# Types of parts.py for the compiled build. The rules are in the .py file.

from proxy.core.node_health cimport NodeHealth
from proxy.core.session.broker_waits cimport BrokerWaits
from proxy.core.session.channel cimport Channel
from proxy.core.session.exchange_queue cimport ExchangeQueue
from proxy.core.session.mutes cimport Mutes
from proxy.core.session.plan_book cimport PlanBook
from proxy.core.session.policy_calls cimport PolicyCalls
from proxy.core.session.step_time cimport StepTime
from proxy.core.stats.usage cimport Usage
from proxy.core.turns cimport ScheduledSession


cdef class SessionParts(ScheduledSession):
    cdef public object _claim, _ending, held, in_flight, peer, questions
    cdef public object replies, requests, sasl
    cdef public long long _uncounted, exchange_ids, replied_ms, sample_left, unanswered_ms
    cdef public bint samples
    cdef public BrokerWaits waits
    cdef public Channel broker, client
    cdef public Mutes mutes
    cdef public NodeHealth node
    cdef public PlanBook plans
    cdef public PolicyCalls calls
    cdef public ExchangeQueue queue
    cdef public StepTime shared
    cdef public Usage usage
