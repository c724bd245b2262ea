# Types of kept_produce.py for the compiled build. The rules are in the .py file.

cimport cython

from proxy.core.session cimport frame_heads
from proxy.core.session.exchange cimport Exchange, ObservedExchange
from proxy.core.session.plan cimport Plan
from wire cimport produce_runs
from wire.produce cimport ProduceWalker


@cython.locals(
    most=cython.longlong, prefix=bytes, at=cython.longlong, version=cython.longlong, end=cython.longlong
)
cpdef keep(Plan plan, bytearray buf, long long pos, long long stop, long long steps=*)

@cython.locals(plan=Plan, since_ms=cython.longlong)
cpdef on_sent(ObservedExchange exchange, long long now_ms)
cpdef on_streamed(ObservedExchange exchange, ProduceWalker walker, long long now_ms)
cpdef leave_to_broker(Exchange exchange)
