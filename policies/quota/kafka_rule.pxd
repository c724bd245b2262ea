# Types of kafka_rule.py for the compiled build. The rules are in the .py file.

cimport cython

from policies.quota.bucket cimport ClientBuckets, QuotaBucket
from policies.quota.manager cimport ClientQuotaManager


cdef class KafkaRule:
    cdef public object _cap_ms, _exempt, _find, _find_hook, _min_span_seconds
    cdef public bint _bytes, _sequential
    cdef public dict hooks_by_api
    cdef public ClientQuotaManager manager

    cpdef on_request(self, request, peer, long long now_ms)

    @cython.locals(
        account=ClientBuckets, byte_ms=cython.longlong, spent=QuotaBucket, bucket=QuotaBucket
    )
    cpdef on_response(self, request, response, peer, long long now_ms)
