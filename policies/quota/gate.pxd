# Types of gate.py for the compiled build. The rules are in the .py file.

cimport cython

from policies.client_gate cimport ClientGate
from policies.quota.bucket cimport ClientBuckets, QuotaBucket
from policies.quota.manager cimport ClientQuotaManager
from policies.quota.rate cimport SampledRate


cdef class QuotaGate(ClientGate):
    cdef public QuotaBucket _bucket, _spent
    cdef public long long _epoch
    cdef public object _held, _peer
    cdef public ClientQuotaManager _manager
    cdef public bint _produces

    @cython.locals(ahead_ms=cython.double, bucket=QuotaBucket, rate=SampledRate)
    cpdef bint passes(self, long long size_bytes, long long now_ms) except -1

    @cython.locals(
        earliest_ms=cython.double, spent_ms=cython.double, pass_ms=cython.double, bucket=QuotaBucket
    )
    cpdef bint _passes_by_bytes(
        self, QuotaBucket spent, long long size_bytes, long long now_ms
    ) except -1

    @cython.locals(account=ClientBuckets)
    cpdef _bind(self, long long now_ms)
