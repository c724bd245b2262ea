# Types of body_walk.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session.exchange cimport Exchange
from proxy.core.session.plan cimport Plan
from proxy.core.stats.topic_usage cimport TopicUsage
from wire.produce cimport ProduceWalker
from wire.produce_topics cimport ProduceTopics


@cython.locals(plan=Plan, usage=TopicUsage)
cpdef ProduceWalker walker_for(shared, Exchange exchange)

@cython.locals(usage=TopicUsage)
cpdef on_fed(shared, str user, ProduceWalker walker)

@cython.locals(usage=TopicUsage)
cpdef on_produced(shared, str user, ProduceWalker walker)
