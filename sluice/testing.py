"""The test bench for policies, and a real Sluice for tests with real clients. It needs pytest.

    bench = PolicyBench(NightGuard, {"allowed_prefix": "night-"})
    verdict = bench.ask(bench.request("Produce"))
    bench.advance(500)                      # alarms ring, deadlines pass, the policy ticks
    bench.released[-1].verdict              # of a request that was held: the final one

- `PolicyBench` asks a policy through a real chain, so that order, modes and `on_error` behave as in the proxy. It needs
  no broker, and only `advance` moves its clock.
- `PolicyContract` has the tests that every policy must pass.
- `sluice_with` is a pytest fixture: Sluice as a process before an embedded cluster. It needs the extra `demo`.
"""

from policies.testing import (
    BenchEntry,
    BenchHost,
    BenchReporter,
    BenchRequest,
    BenchResponse,
    ClientError,
    ClientView,
    PolicyBench,
    PolicyContract,
    Released,
    record_batch,
    request_body,
    response_body,
)
from policies.validation import SettingsError
from proxy.testing import LiveSluice, sluice_with

__all__ = [
    "BenchEntry",
    "BenchHost",
    "BenchReporter",
    "BenchRequest",
    "BenchResponse",
    "ClientError",
    "ClientView",
    "LiveSluice",
    "PolicyBench",
    "PolicyContract",
    "Released",
    "SettingsError",
    "record_batch",
    "request_body",
    "response_body",
    "sluice_with",
]
