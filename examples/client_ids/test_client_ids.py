"""client_ids: clients whose id has a known prefix may produce and fetch."""

from dataclasses import replace

import pytest
from client_ids import ClientIds

from sluice import FORWARD, ErrorCode, Outcome, PolicyConfigError, Reject
from sluice.testing import PolicyBench


def test_only_named_clients_produce() -> None:
    """A known prefix passes, any other id is refused; other APIs are never asked about."""
    bench = PolicyBench(ClientIds, {"prefixes": ["billing-"]})
    known = replace(bench.peer, client_id="billing-7")

    assert bench.ask(bench.request("Produce"), known) is FORWARD
    assert bench.ask(bench.request("Fetch")) == Reject(ErrorCode.POLICY_VIOLATION)
    assert bench.ask(bench.request("Metadata")) is FORWARD


def test_admitted_requests_are_counted() -> None:
    """A request that a policy answered does not count."""
    bench = PolicyBench(ClientIds, {"prefixes": ["bench"]})
    request = bench.request("Produce")

    bench.ask(request)
    bench.reply(request)
    bench.complete(bench.request("Produce"), Outcome.ANSWERED)

    assert isinstance(bench.policy, ClientIds)
    assert bench.policy.admitted == 1


def test_no_prefix_is_a_mistake() -> None:
    """An empty list would refuse all clients, so it is refused."""
    with pytest.raises(PolicyConfigError, match="at least one"):
        PolicyBench(ClientIds, {"prefixes": []})
