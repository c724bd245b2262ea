"""access: no request of any API and version passes without the rights that Kafka's authorizer demands."""

import pytest

from policies.access.policy import Access
from policies.api import FORWARD, Reject
from policies.interests import interests_of
from policies.testing import BenchRequest, PolicyBench
from tests.support.core.access_requests import apis, naming
from tests.support.core.access_rules import BOB, access, bob_may, refusal_of, refused
from wire.apis import OFFERED, SIGN_ON, ApiKey, find, known, name_of
from wire.authorization import (
    ACTS,
    AUTHORIZED,
    RESOURCE_APIS,
    ResourceType,
    checks_of,
    is_authorized,
)
from wire.errors import ErrorCode
from wire.request_names import read_names

NOTHING = bob_may(topics={"other": ["describe"]})
ALL = bob_may(
    topics={"*": ["all"], "__*": ["all"]},
    groups={"*": ["all"]},
    transactions={"*": ["all"]},
    cluster=["all"],
)


@pytest.mark.parametrize("name", sorted(map(name_of, RESOURCE_APIS)))
def test_a_client_without_rights_gets_kafkas_code(name: str) -> None:
    """The whole request, or each item: nothing of it reaches the broker as it is."""
    nobody, everybody = PolicyBench(Access, NOTHING), PolicyBench(Access, ALL)
    for api in apis():
        if api.name != name:
            continue
        request = naming(nobody, api)
        found = refused(nobody, request)
        if api.key in {ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN}:
            assert found is None, "the broker asks whose the token is"
            continue
        if api.key in {ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN}:
            assert found is None, "each has tokens of its own"
            continue
        codes = {int(check.code) for check in checks_of(api)}
        assert found is not None, api
        assert {found} <= codes if isinstance(found, int) else set(found.values()) <= codes, api
        assert refused(everybody, naming(everybody, api)) is None, api


def test_each_act_is_needed() -> None:
    """An API that asks for an act is refused without it, and passes with it alone."""
    asked: set[str] = set()
    for api in apis():
        acts = {check.act for check in checks_of(api) if check.act} - {"replicate", "tokens"}
        for act in acts:
            others = bob_may(cluster=sorted({*ACTS} - {act, act.replace("describe", "alter")}))
            bench = PolicyBench(Access, others)
            request = naming(bench, api)
            if act not in request.acts:
                continue
            asked.add(act)
            assert refused(bench, request) is not None, (api, act)
            names = {"topics": {"*": ["all"]}, "groups": {"*": ["all"]}}
            bench = PolicyBench(Access, bob_may(cluster=[act], **names))
            assert refused(bench, naming(bench, api)) is None, (api, act)
    assert asked >= {*ACTS} - {"tokens", "idempotent-write"}


def test_what_is_not_known_is_neither_offered_nor_passed() -> None:
    """Each API that Sluice offers is judged, filtered or asks for nothing; other versions are refused."""
    policy = access(NOTHING)
    interests = interests_of(policy)
    judged = interests.apis or frozenset()
    for key in OFFERED:
        assert key in judged or key in AUTHORIZED - RESOURCE_APIS, name_of(key)
    assert judged.isdisjoint(SIGN_ON)
    bench = PolicyBench(Access, ALL)
    offered = bench.chain.offered()
    for key, (lowest, highest) in offered.items():
        for version in range(lowest, highest + 1):
            api = known(key, version)
            assert api is not None
            assert is_authorized(api), api
    assert offered[ApiKey.ADD_PARTITIONS_TO_TXN] == (0, 3)


def test_a_version_that_is_not_known_is_refused_if_it_comes() -> None:
    """Whatever ApiVersions said: InitProducerId v6, by who may do everything."""
    bench = PolicyBench(Access, ALL)
    api = known(ApiKey.INIT_PRODUCER_ID, 6)
    assert api is not None
    verdict = bench.policy.on_request(BenchRequest(api), BOB, 0)
    assert isinstance(verdict, Reject)
    assert refusal_of(verdict) == ErrorCode.UNSUPPORTED_VERSION


def test_a_version_that_is_for_brokers_is_refused_as_a_broker_refuses_it() -> None:
    """AddPartitionsToTxn v4, by who may do everything."""
    bench = PolicyBench(Access, ALL)
    api = find(ApiKey.ADD_PARTITIONS_TO_TXN, 4)
    assert api is not None
    names = read_names(api, b"\x01\x00", 0, 2, {})
    verdict = bench.policy.on_request(BenchRequest(api, names=names), BOB, 0)
    assert refusal_of(verdict) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_requests_that_ask_for_nothing_pass() -> None:
    """A list of groups, a description of the cluster: their replies are filtered."""
    bench = PolicyBench(Access, NOTHING)
    for key in AUTHORIZED - RESOURCE_APIS - SIGN_ON:
        assert bench.ask(bench.request(name_of(key)), BOB) is FORWARD


@pytest.mark.parametrize(("api", "version"), [("Fetch", 4), ("Fetch", 14), ("Fetch", 15)])
def test_no_client_speaks_as_a_replica(api: str, version: int) -> None:
    """Not even one who may do everything."""
    bench = PolicyBench(Access, ALL)
    fields: dict[str, object] = {"replica_id": 5}
    if version >= 15:
        fields = {"replica_state": {"replica_id": 5, "replica_epoch": 1}}
    request = bench.request(api, version, topics=["a"], fields=fields)
    assert refused(bench, request) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_the_kinds_of_a_request_are_judged_in_kafkas_order() -> None:
    """Transactional id, group, topic: the first that fails decides."""
    fields = {"transactional_id": "x", "group_id": "g"}
    steps: list[tuple[dict[str, object], object]] = [
        ({"cluster": ["describe"]}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"transactions": {"x": ["write"]}}, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ({"groups": {"g": ["read"]}}, {"a": ErrorCode.TOPIC_AUTHORIZATION_FAILED}),
        ({"topics": {"a": ["read"]}}, None),
    ]
    allowed: dict[str, object] = {}
    for more, code in steps:
        allowed |= more
        bench = PolicyBench(Access, bob_may(**allowed))
        request = bench.request("TxnOffsetCommit", 3, topics=["a"], fields=fields)
        assert refused(bench, request) == code


def test_kafkas_own_topics_take_part_in_no_transaction() -> None:
    """Whoever asks: the others of the request are not attempted then."""
    bench = PolicyBench(Access, ALL)
    request = bench.request(
        "AddPartitionsToTxn",
        3,
        topics=["a", "__consumer_offsets"],
        fields={"v3_and_below_transactional_id": "x"},
    )
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert refused(bench, request) == {"__consumer_offsets": code}


def test_kinds_of_one_request_are_refused_beside_each_other() -> None:
    """Configs of topics, groups and brokers, each by its own code."""
    bench = PolicyBench(Access, bob_may(topics={"a": ["describe-configs"]}))
    resources = [(2, "a"), (2, "b"), (32, "g"), (4, "1")]
    fields = {
        "resources": [{"resource_type": kind, "resource_name": name} for kind, name in resources]
    }
    request = bench.request("DescribeConfigs", fields=fields)
    assert refused(bench, request) == {
        "b": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "g": ErrorCode.GROUP_AUTHORIZATION_FAILED,
        "describe-configs": ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }


def test_every_kind_has_a_check() -> None:
    """Or this file would not see one that nothing judges."""
    kinds = {check.kind for api in apis() for check in checks_of(api)}
    assert kinds == set(ResourceType)
