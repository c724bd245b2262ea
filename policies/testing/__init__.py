"""Ready-made requests and a manual clock for tests of policies. Their authors import it from `sluice.testing`."""

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
