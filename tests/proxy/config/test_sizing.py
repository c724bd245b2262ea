"""The memory budget of a configuration, with the requests that its policies want whole."""

from typing import ClassVar

import msgspec
import pytest

from policies import discovery
from policies.api import Need, Policy
from policies.validation import try_convert
from proxy.config import Config
from proxy.config.budget import MAX_REFUSED_BYTES, budget_within
from proxy.config.container import MemoryLimit
from proxy.core.session import request_stream
from wire.apis import ApiKey

MIB = 1 << 20


class Scan(Policy):
    """A policy that wants every Produce whole."""

    class Config(msgspec.Struct):
        """The policy has no settings."""

    needs: ClassVar[dict[int, Need]] = {ApiKey.PRODUCE: Need.BODY}

    def on_request(self, request, peer, now_ms):
        return super().on_request(request, peer, now_ms)


class Point:
    """An entry point of the policy."""

    value = "tests:Scan"
    module = "tests"

    def load(self):
        return Scan


def config(**sections: object) -> Config:
    value, problems = try_convert(
        Config, {"upstream": {"bootstrap_servers": ["kafka-1:9092"]}, **sections}
    )
    assert problems == []
    return value


@pytest.fixture
def scan(monkeypatch):
    """Install the policy as a third party's."""
    monkeypatch.setattr(discovery, "entry_points_by_name", lambda: {"scan": Point()})
    return [{"use": "scan", "name": "looks"}]


def test_without_policies_nothing_is_kept_whole():
    """Requests are streamed."""
    budget = budget_within(config(), None)
    assert budget.whole_bytes == 0
    assert budget.connections == 1000


def test_a_policy_that_may_refuse_has_requests_kept_up_to_the_cores_limit():
    """The two APIs of `quota` are small."""
    assert MAX_REFUSED_BYTES == request_stream.MAX_REFUSED_BYTES
    quotas = [{"use": "quota", "config": {"quotas": [{"user": "a", "request_rate": 5}]}}]
    budget = budget_within(config(policies=quotas), MemoryLimit(256 * MIB, "memory.max"))
    assert budget.demand.whole_bytes == MAX_REFUSED_BYTES
    assert budget.demand.wanted_bytes == MIB + 4
    assert budget.demand.wanted_by == "quota"
    assert list(budget.problems()) == []


def test_a_policy_that_wants_bodies_needs_a_pool_for_the_largest(scan):
    """It is 100 MiB by default, which a small container cannot hold; a smaller maximum fits."""
    limit = MemoryLimit(256 * MIB, "memory.max")
    large = budget_within(config(policies=scan), limit)
    assert large.demand.wanted_bytes == 104_857_604
    assert [problem.path for problem in large.problems()] == ["memory"]
    limits = {"socket_request_max_bytes": 16 * MIB}
    assert list(budget_within(config(policies=scan, limits=limits), limit).problems()) == []
    small = config(policies=scan, memory={"queued_max_request_bytes": 2 * MIB})
    (problem,) = budget_within(small, None).problems()
    assert "'looks'" in problem.expected


def test_the_settings_are_the_terms_of_the_budget():
    """This holds for each memory key and for the connections."""
    memory = {"queued_max_request_bytes": 3 * MIB, "queued_max_response_bytes": -1}
    budget = budget_within(config(memory=memory, limits={"max_connections": 7}), None)
    assert (budget.request_bytes, budget.response_bytes, budget.connections) == (3 * MIB, -1, 7)
