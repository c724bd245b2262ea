"""Requests that another policy refuses count against the quota, wherever its entry stands (KIP-124: every request)."""

import pytest

from policies.access.policy import Access
from policies.admission import Admission
from policies.api import Forward, Hold, Reject, Throttle
from policies.limits import Limits, LimitsConfig
from policies.quota.policy import Quota
from policies.records import RecordRules
from policies.testing import BenchEntry, BenchHost, BenchRequest, PolicyBench
from tests.support.core.access_rules import rules
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.quotas.quota_policies import EPOCH_MS, peer
from wire.apis import ApiKey
from wire.errors import ErrorCode
from wire.primitives import INT32

QUOTAS = {"quotas": [{"user": "alice", "request_rate": 1}]}
FULL = {"max_in_flight_requests_per_node": 1, "max_queued_requests": 0}
REFUSALS = pytest.mark.parametrize(
    ("refusing", "config", "api", "fields"),
    [
        (Limits, {"forbidden_apis": ["DeleteTopics"]}, "DeleteTopics", {}),
        (Limits, {"required_acks": "all"}, "Produce", {"acks": 1}),
        (Access, rules("mine"), "DescribeGroups", {"groups": ["g"]}),
        (RecordRules, {"compression": ["zstd"], "compression_min_bytes": 0}, "Produce", None),
        (Admission, FULL, "ListOffsets", {}),
    ],
    ids=["limits", "acks", "access", "records", "admission"],
)


def behind(
    refusing: type, config: dict[str, object], enforcement: str = "entity", **quotas: object
) -> PolicyBench:
    """Return a bench on which the quota's entry stands after another policy's."""
    quota = BenchEntry(Quota, {**QUOTAS, "enforcement": enforcement, **quotas}, "quota")
    return PolicyBench(refusing, config, EPOCH_MS, then=[quota])


def flood(made: PolicyBench, api: str, fields: dict[str, object] | None) -> list[BenchRequest]:
    """Return ten requests of a client, each on a connection of its own."""
    if fields is None:
        return [made.request(api, topics=["t"], records=[b"v"]) for _ in range(10)]
    if api == "Produce":
        return [made.request(api, acks=1) for _ in range(10)]
    return [made.request(api, 1, fields=fields) for _ in range(10)]


def _refuses(verdict: object) -> bool:
    return isinstance(verdict, Reject) or (isinstance(verdict, Forward) and bool(verdict.denials))


@REFUSALS
def test_refused_requests_are_counted_and_throttled(refusing, config, api, fields):
    """Two pass at once, the third is throttled, and each later one waits, refused though it will be."""
    made = behind(refusing, config)
    asked = enumerate(flood(made, api, fields), 1)
    verdicts = [made.ask(each, peer(number)) for number, each in asked]
    ends = [each.forward if isinstance(each, Throttle) else each for each in verdicts[:3]]
    assert sum(_refuses(each) for each in ends) >= 2
    assert isinstance(verdicts[2], Throttle)
    assert all(isinstance(each, Hold) for each in verdicts[3:])
    (row,) = made.policy_of("quota").usage(made.now_ms)
    assert row.rate == pytest.approx(0.3)


@REFUSALS
def test_kafkas_rule_counts_refused_requests_at_their_replies(refusing, config, api, fields):
    """The reply that Sluice makes is judged like a broker's."""
    made = behind(refusing, config, "channel")
    asked = flood(made, api, fields)
    for number, each in enumerate(asked, 1):
        made.ask(each, peer(number))
    for number, each in enumerate(asked, 1):
        made.reply(each, peer=peer(number))
    (row,) = made.policy_of("quota").usage(made.now_ms)
    assert row.rate == pytest.approx(1.0)
    more = flood(made, api, fields)[0]
    made.ask(more, peer())
    assert isinstance(made.reply(more, peer=peer()), Throttle)


def test_a_refused_produce_costs_its_bytes():
    """As in Kafka, where the bytes of a refused Produce count."""
    quotas = [{"user": "alice", "producer_byte_rate": 1000}]
    made = behind(Limits, {"request_max_bytes": 4096}, quotas=quotas)
    verdict = made.ask(made.request("Produce", size_bytes=5000), peer())
    assert isinstance(verdict, Throttle)
    assert (verdict.throttle_time_ms, type(verdict.forward)) == (3000, Reject)


def test_a_request_about_quotas_is_counted_first_and_answered_at_the_entrys_place():
    """A policy before the quota's entry can still forbid it, and no quota changes then."""
    made = behind(Limits, {"forbidden_apis": ["AlterClientQuotas"]}, admins=["alice"])
    change = {
        "entries": [
            {
                "entity": [{"entity_type": "user", "entity_name": "alice"}],
                "ops": [{"key": "request_rate", "value": 1e6, "remove": False}],
            }
        ],
        "validate_only": False,
    }
    verdicts = [
        made.ask(made.request("AlterClientQuotas", fields=change), peer(number))
        for number in range(5)
    ]
    assert [type(each) for each in verdicts] == [Reject, Reject, Throttle, Hold, Hold]
    assert verdicts[2].forward == verdicts[0]
    (row,) = made.policy_of("quota").usage(made.now_ms)
    assert (row.limit, row.rate) == (1, pytest.approx(0.3))


def test_a_throttle_of_a_refused_request_mutes_the_client_and_is_told():
    """The reply has the error and the time; the next request waits unread for it."""
    limits = Limits(LimitsConfig(forbidden_apis=("DeleteTopics",)), BenchHost("limits"))
    quotas = [{"user": "ANONYMOUS", "request_rate": 1}]
    quota = PolicyBench(Quota, {"quotas": quotas, "burst_seconds": 0}).policy
    wire = Wire(make_engine([limits, quota], now_ms=EPOCH_MS))
    body = b"\0\0\0\x01" + f.string("t") + b"\0\0\0\x05"
    for number in (1, 2):
        wire.client(f.request(ApiKey.DELETE_TOPICS, 1, number, body))
    (_, correlation_id, throttle_time_ms) = (
        INT32.unpack_from(wire.to_client, at)[0] for at in (0, 4, 8)
    )
    assert (correlation_id, throttle_time_ms) == (1, 1000)
    assert wire.to_client.endswith(
        f.string("t") + int(ErrorCode.POLICY_VIOLATION).to_bytes(2, "big")
    )
    assert wire.to_broker == b""
    wire.advance(999)
    assert wire.to_client.count(f.string("t")) == 1
    wire.advance(2)
    assert wire.to_client.count(f.string("t")) == 2
