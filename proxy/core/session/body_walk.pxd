# Types of body_walk.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session.exchange cimport Exchange
from proxy.core.session.plan cimport Plan
from wire.produce cimport ProduceWalker
from wire.produce_topics cimport ProduceTopics


@cython.locals(plan=Plan)
cpdef ProduceWalker walker_for(shared, Exchange exchange)
cpdef on_fed(shared, str user, ProduceWalker walker)
cpdef on_produced(shared, str user, ProduceWalker walker)
