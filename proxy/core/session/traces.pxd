# Types of traces.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session.exchange cimport ObservedExchange
from proxy.core.session.plan cimport Plan
from proxy.core.session.step_time cimport StepTime


cpdef trace_of(shared, ObservedExchange exchange)

@cython.locals(now_us=cython.longlong, began_us=cython.longlong)
cpdef on_received(StepTime shared, ObservedExchange exchange)
