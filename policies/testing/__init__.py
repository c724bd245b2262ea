"""Ready-made requests and a manual clock, for authors of policies (and for Sluice's own tests).

    bench = PolicyBench(Limits, {"forbidden_apis": ["DeleteTopics"]})
    assert bench.ask(bench.request("DeleteTopics")) == Reject(ErrorCode.POLICY_VIOLATION)

`ask` goes through a real Chain, so order, modes and `on_error` behave as in the proxy. A held request is judged again
when it is woken; alarms ring when the clock is advanced:

    verdict = bench.ask(request)            # Hold(...)
    bench.advance(500)                      # alarms ring, deadlines pass, the policy ticks
    assert bench.released[-1].verdict ...   # the final verdict, and its time
"""

from policies.testing.bench_host import BenchHost, BenchReporter
from policies.testing.bench_request import BenchRequest, BenchResponse, Released
from policies.testing.client_view import ClientError, ClientView
from policies.testing.message_builder import request_body, response_body
from policies.testing.policy_bench import BenchEntry, PolicyBench
from policies.testing.policy_contract import PolicyContract
from policies.testing.record_writer import record_batch

__all__ = [
    "BenchEntry",
    "BenchHost",
    "BenchReporter",
    "BenchRequest",
    "BenchResponse",
    "ClientError",
    "ClientView",
    "PolicyBench",
    "PolicyContract",
    "Released",
    "record_batch",
    "request_body",
    "response_body",
]
