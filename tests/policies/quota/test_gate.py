"""The gate of the quota policy: it charges what passes, changes nothing else, and notices live changes.

`tests/proxy/core/test_quota_gate.py` compares it with the plain path in random plays.
"""

import pytest

from policies.api import Throttle
from policies.quota.alter import Change
from policies.quota.entity import QuotaEntity
from policies.quota.policy import Quota
from tests.support.quotas.quota_policies import bench, peer
from wire.apis import ApiKey

ALICE = QuotaEntity("alice")


def state(made):
    return [
        (bucket.name, bucket.pass_ms, bucket.rate.measure(made.now_ms), bucket.throttle_time)
        for _, bucket in made.policy.manager
    ]


def gate_of(made, api_key=ApiKey.METADATA, who=None):
    assert isinstance(made.policy, Quota)
    return made.policy.gate(api_key, -1, who or peer())


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.PRODUCE])
def test_it_passes_the_burst_and_no_more(key):
    """A request that it refuses is neither charged nor counted; `on_request` then throttles."""
    made = bench({"user": "alice", "request_rate": 2}, burst_seconds=2)
    gate = gate_of(made, key)
    assert [gate(100, made.now_ms) for _ in range(6)] == [True] * 4 + [False] * 2
    (_, _, rate, throttles) = state(made)[0]
    assert (rate, throttles) == (0.4, None)
    assert isinstance(made.ask(made.request("Metadata"), peer()), Throttle)
    assert not gate(100, made.now_ms)


def test_a_produce_is_charged_by_both_limits_or_by_none():
    """Each of the two limits can refuse, and then the other is not charged either."""
    made = bench({"user": "alice", "request_rate": 3, "producer_byte_rate": 1000}, burst_seconds=1)
    gate = gate_of(made, ApiKey.PRODUCE)
    assert gate(600, made.now_ms)
    before = state(made)
    assert not gate(600, made.now_ms)
    assert state(made) == before
    assert gate(100, made.now_ms)
    assert gate(100, made.now_ms)
    before = state(made)
    assert not gate(100, made.now_ms)
    assert state(made) == before
    assert gate_of(made, ApiKey.METADATA)(10_000, made.now_ms) is False


def test_a_waiting_request_closes_the_gate():
    """No request passes the queue of its entity."""
    made = bench({"user": "alice", "request_rate": 1}, burst_seconds=0)
    made.ask(made.request("Metadata"), peer())
    made.ask(made.request("Metadata"), peer(2))  # waits
    gate = gate_of(made, who=peer(3))
    made.now_ms += 1000  # the schedule would allow one, but the alarm has not served the queue
    assert not gate(10, made.now_ms)


def test_live_changes_and_dropped_buckets_reach_open_gates():
    """A new limit holds for the next request, the removal of all limits too."""
    made = bench({"user": "alice", "request_rate": 1}, burst_seconds=1)
    gate = gate_of(made)
    assert gate(10, made.now_ms)
    assert not gate(10, made.now_ms)
    made.policy.change([Change(ALICE, "request_rate", 1000.0)], made.now_ms)
    made.advance(10_000)
    assert gate(10, made.now_ms)
    made.policy.change([Change(ALICE, "producer_byte_rate", 1.0)], made.now_ms)
    produce = gate_of(made, ApiKey.PRODUCE)
    assert not produce(10_000, made.now_ms)
    made.advance(8_000_000)  # the buckets expire
    assert list(made.policy.manager) == []
    assert gate(10, made.now_ms)
    assert [bucket.rate.last_ms for _, bucket in made.policy.manager][:1] == [made.now_ms]


def test_clients_without_a_limit_pass_and_exempt_ones_have_no_gate():
    """Exempt requests are counted as such, which a gate cannot say."""
    made = bench({"user": "bob", "request_rate": 1}, cluster_principals=["root"])
    assert gate_of(made)(10, made.now_ms)
    assert gate_of(made, who=peer(user="root")) is None


@pytest.mark.parametrize("key", [ApiKey.FETCH, ApiKey.DESCRIBE_CLIENT_QUOTAS])
def test_requests_that_need_more_than_a_count_have_no_gate(key):
    """A Fetch with a limit is limited itself; requests about quotas are answered; Kafka's rule judges replies."""
    made = bench({"user": "alice", "request_rate": 1, "consumer_byte_rate": 1000})
    assert gate_of(made, key) is None
    assert gate_of(bench({"user": "alice", "request_rate": 1}, enforcement="channel")) is None
